//go:build linux

// Command pictures records the terminals that the documents show (make pictures). It builds
// holdfast, runs it on real terminals in tmux, and writes their output as asciicasts.
// svg-term-cli (npm) turns these into animated SVG files:
//
//	docs/pictures/NAME.svg
//
// It needs tmux, npx, and the right to give its processes a host name of their own. No check
// compares the recordings, because each one is different.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// drawer is the npm package that makes the SVG files.
const drawer = "svg-term-cli@2.1.1"

// limit is the maximal size of an SVG file, so that pages load fast.
const limit = 150 << 10

// pictures are the recordings, by the name of the file.
var pictures = map[string]func(*terminal) error{
	"run": recordRun,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	err := draw(ctx, os.Args[1:])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw makes the pictures with the names, or all of them.
func draw(ctx context.Context, names []string) error {
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "holdfast-pictures-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	bin := filepath.Join(tmp, "bin")
	if _, err := command.Build(ctx, bin, nil); err != nil {
		return err
	}
	if len(names) == 0 {
		for name := range pictures {
			names = append(names, name)
		}
	}
	var failed []error
	for _, name := range names {
		record, ok := pictures[name]
		if !ok {
			return fmt.Errorf("there is no picture %q", name)
		}
		if err := one(ctx, record, filepath.Join(tmp, name), bin, filepath.Join(root, "docs", "pictures", name+".svg")); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// one records one picture in a folder of its own, and draws it.
func one(ctx context.Context, record func(*terminal) error, folder, bin, svg string) error {
	t, err := openTerminal(ctx, folder, bin)
	if err != nil {
		return err
	}
	err = record(t)
	if err := errors.Join(err, t.close()); err != nil {
		return err
	}
	cast := folder + ".cast"
	if err := t.save(cast); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(svg), 0o755); err != nil {
		return err
	}
	drawing := exec.CommandContext(ctx, "npx", "--yes", drawer, "--in", cast, "--out", svg,
		"--window", "--no-cursor", "--no-optimize", "--width", fmt.Sprint(columns), "--height", fmt.Sprint(lines))
	if _, err := modules.OutputOf(drawing); err != nil {
		return err
	}
	drawn, err := os.ReadFile(svg)
	if err != nil {
		return err
	}
	if drawn, err = finish(drawn); err != nil {
		return fmt.Errorf("%s by %s: %w", svg, drawer, err)
	}
	if len(drawn) > limit {
		return fmt.Errorf("%s has %d bytes, more than %d: record less", svg, len(drawn), limit)
	}
	fmt.Printf("wrote %s, %d KB\n", svg, len(drawn)>>10)
	return os.WriteFile(svg, append(drawn, '\n'), 0o644)
}

var (
	frame = regexp.MustCompile(`translateX\(-(\d+)px\)`)
	moves = regexp.MustCompile(`\.(\w+)\{animation-duration`) // the class of the animated element
)

// finish adds what the drawer leaves out: it keeps runs of spaces, and shows the last frame if
// the viewer does not support animation or its user does not want it.
func finish(svg []byte) ([]byte, error) {
	frames, class := frame.FindAllSubmatch(svg, -1), moves.FindSubmatch(svg)
	if len(frames) == 0 || class == nil {
		return nil, errors.New("it does not move")
	}
	group := fmt.Sprintf(`<g class="%s"`, class[1])
	for old, with := range map[string]string{
		"<svg":     `<svg xml:space="preserve"`,
		"</style>": "@media(prefers-reduced-motion){g{animation:none!important}}</style>",
		group:      fmt.Sprintf(`%s transform="translate(-%s)"`, group, frames[len(frames)-1][1]),
	} {
		if !bytes.Contains(svg, []byte(old)) {
			return nil, fmt.Errorf("it has no %s", old)
		}
		svg = bytes.Replace(svg, []byte(old), []byte(with), 1)
	}
	return svg, nil
}
