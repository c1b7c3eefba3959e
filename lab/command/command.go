// Package command builds the command holdfast for tests that run it.
package command

import (
	"context"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/internal/overlay"
)

// Build builds the command in a folder and returns its path. texts replaces the text of files
// by their absolute paths.
func Build(ctx context.Context, folder string, texts map[string]string) (program string, err error) {
	root, err := modules.Root(ctx)
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, "holdfast")
	words := []string{"build", "-o", program}
	if len(texts) > 0 {
		changed := program + ".overlay"
		if err := os.Mkdir(changed, 0o700); err != nil {
			return "", err
		}
		list, err := overlay.Write(changed, texts)
		if err != nil {
			return "", err
		}
		words = append(words, "-overlay", list)
	}
	_, err = modules.Output(ctx, filepath.Join(root, "cmd", "holdfast"), "go", append(words, ".")...)
	return program, err
}
