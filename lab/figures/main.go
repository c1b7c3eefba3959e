// Command figures keeps documents equal to the result files of benchmarks and fault campaigns in
// docs/dev (make docs): it draws docs/dev/figures, and writes the tables in docs/dev and in
// docs/figures.md. With -check it changes nothing and fails if something differs.
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
	docs := filepath.Join(root, "docs")
	dev := filepath.Join(docs, "dev")
	drawn, err := figures(dev)
	if err != nil {
		return err
	}
	written, err := documents(dev)
	if err != nil {
		return err
	}
	forUsers, err := page(docs, dev)
	if err != nil {
		return err
	}
	files := []made{forUsers}
	for _, f := range append(drawn, written...) {
		files = append(files, made{"dev/" + f.name, f.text})
	}
	var stale []error
	for _, f := range files {
		file := filepath.Join(docs, filepath.FromSlash(f.name))
		old, err := os.ReadFile(file)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err == nil && bytes.Equal(old, f.text):
		case check:
			stale = append(stale, fmt.Errorf("docs/%s is not what its result file gives; make docs would change it", f.name))
		default:
			if err := os.WriteFile(file, f.text, 0o644); err != nil {
				return err
			}
			fmt.Println("wrote", "docs/"+f.name)
		}
	}
	return errors.Join(stale...)
}

// made is a generated file below docs.
type made struct {
	name string
	text []byte
}
