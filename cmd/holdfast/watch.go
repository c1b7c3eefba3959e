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
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
)

func intervalFlag(flags *pflag.FlagSet) *time.Duration {
	return flags.Duration("interval", defaultInterval, "the `duration` between two looks at the store")
}

func validInterval(d time.Duration) error {
	if d < minInterval {
		return usagef("--interval %v is below %v", d, minInterval)
	}
	return nil
}

// watch shows the holds until it is interrupted, which is no failure.
func (v *view) watch(ctx context.Context, interval time.Duration) error {
	ctx, stop := untilInterrupted(ctx)
	l := looker{where: v.where}
	sights := l.watch(ctx, func() holdfast.Filter { return v.filter.at(time.Now()) }, rhythm{interval: interval})
	defer drained(sights)
	defer stop()
	if !v.json && isTerminal(os.Stdout) {
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
			if !begun && lasting(s.err) {
				return v.where.failure(s.err)
			}
			begun = true
			if text := silence(s.err); text != said {
				say("%s: %s", v.where.name(), text)
				said = text
			}
			continue
		}
		begun = true
		if said != "" {
			say("%s: answers again", v.where.name())
			said = ""
		}
		now := marks(s.holds)
		if printedOnce && slices.Equal(now, shown) {
			continue
		}
		if err := v.print(os.Stdout, s); err != nil {
			return printed(err)
		}
		shown, printedOnce = now, true
	}
	return nil
}

// print prints what was seen: a line of JSON, or a table that ends in an empty
// line.
func (v *view) print(out io.Writer, s sight) error {
	if v.json {
		return writeJSONLine(out, s.holds)
	}
	lines := append([]string{v.title(s)}, v.lines(s.holds, len(s.holds))...)
	_, err := fmt.Fprintf(out, "%s\n\n", strings.Join(lines, "\n"))
	return err
}

// title says what was looked at, and when.
func (v *view) title(s sight) string {
	return fmt.Sprintf("%s  %s", printable(v.where.name()), s.begun.Format(time.RFC3339))
}

// lines are the table of so many holds at most.
func (v *view) lines(holds []holdfast.Status, most int) []string {
	if len(holds) == 0 {
		return []string{printable(v.nothing())}
	}
	more := len(holds) - most
	if more > 0 {
		more++ // to make room for the line that says so
		holds = holds[:len(holds)-more]
	}
	var b strings.Builder
	_ = writeTable(&b, table(holds)) // to memory
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
			case !begun && lasting(seen.err):
				return v.where.failure(seen.err)
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
	put(s, 1, printable(redact(trouble)), alarming)
	s.Show()
}

// mark is what is compared of a hold to tell whether something has changed: not
// that time passes, nor that it was renewed.
type mark struct {
	driver.HoldRef
	driver.Details
	mode          holdfast.Mode
	takeoverDelay time.Duration
	released      bool
	waited        bool // when it was last is no change
	end           string
}

func marks(holds []holdfast.Status) []mark {
	ms := make([]mark, len(holds))
	for i, s := range holds {
		ms[i] = mark{
			HoldRef: s.Ref(), Details: s.Details, mode: s.Mode,
			takeoverDelay: s.TakeoverDelay, released: s.Released, waited: !s.Waited.IsZero(),
		}
		switch s.Left {
		case 0:
			ms[i].end = "past"
		case holdfast.Forever, driver.Unknown:
			ms[i].end = left(s.Left)
		}
	}
	return ms
}
