// Command figures keeps what documents show of result files: it draws the figures of docs/dev/figures
// and writes the tables. With -check it changes nothing and fails on a difference.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

func main() {
	check := flag.Bool("check", false, "change nothing; fail if a figure or a table is not what its result file gives")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	docs := filepath.Join(root, "docs", "dev")
	made, err := figures(docs)
	if err != nil {
		return err
	}
	written, err := documents(docs)
	if err != nil {
		return err
	}
	var stale []error
	for _, f := range append(made, written...) {
		file := filepath.Join(docs, filepath.FromSlash(f.name))
		old, err := os.ReadFile(file)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err == nil && bytes.Equal(old, f.text):
		case check:
			stale = append(stale, fmt.Errorf("docs/dev/%s is not what its result file gives; make docs would change it", f.name))
		default:
			if err := os.WriteFile(file, f.text, 0o644); err != nil {
				return err
			}
			fmt.Println("wrote", "docs/dev/"+f.name)
		}
	}
	return errors.Join(stale...)
}

// made is a file below docs.
type made struct {
	name string
	text []byte
}
