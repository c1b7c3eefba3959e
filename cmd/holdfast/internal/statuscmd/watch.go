package statuscmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/server/words"
)

// Watch shows the holds until it is interrupted, which is not an error.
func (v *View) Watch(ctx context.Context, interval time.Duration) error {
	ctx, stop := UntilInterrupted(ctx)
	l := Looker{Where: v.Where, All: v.All, chooses: v.Filter.aged}
	sights := l.Watch(ctx, v.Filter.dated, Rhythm{Interval: interval})
	defer Drain(sights)
	defer stop()
	if !v.JSON && output.IsTerminal(os.Stdout) {
		return screen.Use(func(s tcell.Screen) error { return v.redraw(ctx, s, sights) })
	}
	return v.follow(sights)
}

// follow prints the holds whenever they have changed, into a pipe or a file.
func (v *View) follow(sights <-chan Sight) error {
	var shown []mark
	said := "" // the last line about a store that does not answer
	printedOnce := false
	for s := range sights {
		if s.Panic != nil {
			panic(s.Panic)
		}
		if s.Err != nil {
			if s.Lasting {
				return v.Where.Failure(s.Err)
			}
			if text := NoAnswer(s.Err); text != said {
				output.Say("%s: %s", v.Where.Name(), text)
				said = text
			}
			continue
		}
		if said != "" {
			output.Say("%s: answers again", v.Where.Name())
			said = ""
		}
		s.Queues = v.shown(s.Holds, s.Queues)
		now := marks(s.Holds, s.Queues)
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

// print prints a sight: as a line of JSON, or as a table and an empty line.
func (v *View) print(out io.Writer, s Sight) error {
	if v.JSON {
		return output.HoldsJSONLine(out, s.Holds, s.Queues)
	}
	lines := append([]string{v.title(s)}, v.lines(s, math.MaxInt)...)
	_, err := fmt.Fprintf(out, "%s\n\n", strings.Join(lines, "\n"))
	return err
}

// title names the store and the time.
func (v *View) title(s Sight) string {
	return fmt.Sprintf("%s  %s", words.Printable(v.Where.Name()), s.Begun.Format(time.RFC3339))
}

// lines returns the table of at most so many holds and waiters.
func (v *View) lines(s Sight, most int) []string {
	rows := output.QueuedRows(s.Holds, s.Queues)
	if len(rows) == 1 {
		return []string{words.Printable(v.nothing())}
	}
	more := len(rows) - 1 - most
	if more > 0 {
		more++ // one less, to make room for the line that says so
		rows = rows[:len(rows)-more]
	}
	var b strings.Builder
	_ = output.Table(&b, rows) // to memory
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; holdfast top shows all", more))
	}
	return lines
}

// redraw shows the holds on a terminal.
func (v *View) redraw(ctx context.Context, s tcell.Screen, sights <-chan Sight) error {
	var last Sight // the last one with an answer
	trouble := ""
	begun := false
	for {
		select {
		case seen, ok := <-sights:
			switch {
			case !ok:
				return nil
			case seen.Panic != nil:
				panic(seen.Panic)
			case seen.Err == nil:
				last, trouble = seen, ""
				last.Queues = v.shown(last.Holds, last.Queues)
			case seen.Lasting:
				return v.Where.Failure(seen.Err)
			default:
				trouble = NoAnswer(seen.Err)
			}
			begun = true
		case <-ctx.Done():
			return nil
		case ev := <-s.EventQ():
			if screen.Quits(s, ev) {
				return nil
			}
		}
		if begun {
			v.draw(s, last, trouble)
		}
	}
}

// draw fills the screen.
func (v *View) draw(s tcell.Screen, last Sight, trouble string) {
	s.Clear()
	_, height := s.Size()
	if !last.Begun.IsZero() {
		screen.Line(s, 0, v.title(last), screen.Strong)
		for i, line := range v.lines(last, max(height-3, 1)) { // without the lines above the rows
			screen.Line(s, 2+i, line, tcell.StyleDefault)
		}
	}
	screen.Line(s, 1, words.Printable(secret.Redact(trouble)), screen.Alarming)
	s.Show()
}
