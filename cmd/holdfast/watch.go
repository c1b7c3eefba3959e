package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
)

// watch shows the holds until it is interrupted, which is no failure.
func (v *view) watch(ctx context.Context, interval time.Duration) error {
	ctx, stop := untilInterrupted(ctx)
	l := looker{where: v.where}
	sights := l.watch(ctx, func() holdfast.Filter { return v.filter.at(time.Now()) }, rhythm{interval: interval})
	defer drained(sights)
	defer stop()
	if !v.json && output.IsTerminal(os.Stdout) {
		return onScreen(func(s tcell.Screen) error { return v.redraw(ctx, s, sights) })
	}
	return v.follow(sights)
}

// follow prints what is held when that has changed, for who reads a pipe or a
// file.
func (v *view) follow(sights <-chan sight) error {
	var shown []mark
	said := "" // of a store that does not answer
	begun, printedOnce := false, false
	for s := range sights {
		if s.panic != nil {
			panic(s.panic)
		}
		if s.err != nil {
			if !begun && location.Lasting(s.err) {
				return v.where.Failure(s.err)
			}
			begun = true
			if text := silence(s.err); text != said {
				output.Say("%s: %s", v.where.Name(), text)
				said = text
			}
			continue
		}
		begun = true
		if said != "" {
			output.Say("%s: answers again", v.where.Name())
			said = ""
		}
		now := marks(s.holds)
		if printedOnce && slices.Equal(now, shown) {
			continue
		}
		if err := v.print(os.Stdout, s); err != nil {
			return exit.Printed(err)
		}
		shown, printedOnce = now, true
	}
	return nil
}

// print prints what was seen: a line of JSON, or a table that ends in an empty
// line.
func (v *view) print(out io.Writer, s sight) error {
	if v.json {
		return output.HoldsJSONLine(out, s.holds)
	}
	lines := append([]string{v.title(s)}, v.lines(s.holds, len(s.holds))...)
	_, err := fmt.Fprintf(out, "%s\n\n", strings.Join(lines, "\n"))
	return err
}

// title says what was looked at, and when.
func (v *view) title(s sight) string {
	return fmt.Sprintf("%s  %s", output.Printable(v.where.Name()), s.begun.Format(time.RFC3339))
}

// lines are the table of so many holds at most.
func (v *view) lines(holds []holdfast.Status, most int) []string {
	if len(holds) == 0 {
		return []string{output.Printable(v.nothing())}
	}
	more := len(holds) - most
	if more > 0 {
		more++ // to make room for the line that says so
		holds = holds[:len(holds)-more]
	}
	var b strings.Builder
	_ = output.Table(&b, output.HoldRows(holds)) // to memory
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; holdfast top shows all", more))
	}
	return lines
}

// redraw shows what is held on a terminal.
func (v *view) redraw(ctx context.Context, s tcell.Screen, sights <-chan sight) error {
	var last sight // with an answer
	trouble := ""
	begun := false
	for {
		select {
		case seen, ok := <-sights:
			switch {
			case !ok:
				return nil
			case seen.panic != nil:
				panic(seen.panic)
			case seen.err == nil:
				last, trouble = seen, ""
			case !begun && location.Lasting(seen.err):
				return v.where.Failure(seen.err)
			default:
				trouble = silence(seen.err)
			}
			begun = true
		case <-ctx.Done():
			return nil
		case ev := <-s.EventQ():
			switch commandOf(ev) {
			case quitKey:
				return nil
			case suspendKey:
				suspend(s)
			}
		}
		if begun {
			v.draw(s, last, trouble)
		}
	}
}

// draw fills the screen.
func (v *view) draw(s tcell.Screen, last sight, trouble string) {
	s.Clear()
	_, height := s.Size()
	if !last.begun.IsZero() {
		put(s, 0, v.title(last), strong)
		for i, line := range v.lines(last.holds, max(height-3, 1)) { // less what stands above the rows
			put(s, 2+i, line, tcell.StyleDefault)
		}
	}
	put(s, 1, output.Printable(secret.Redact(trouble)), alarming)
	s.Show()
}
