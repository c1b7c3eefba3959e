package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/server/words"
)

// patient is how long one look at a store may take. Then the display says that there
// is no answer.
const patient = 30 * time.Second

// Watch shows the holds until it is interrupted, which is not an error.
func (v *View) Watch(ctx context.Context, interval time.Duration) error {
	ctx, stop := process.UntilEnded(ctx)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	l := looker{where: v.Where, all: v.All, chooses: v.Filter.old}
	defer l.close()
	show := v.follow()
	var redraw <-chan os.Signal
	if !v.JSON && output.IsTerminal(os.Stdout) {
		show = v.redraw()
		var stop func()
		redraw, stop = process.Notices()
		defer stop()
	}
	for first := true; ; first = false {
		looking, cancel := context.WithTimeout(ctx, patient)
		s := l.look(looking, v.Filter.Filter)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if first && location.Lasting(s.err) {
			return v.Where.Failure(s.err)
		}
		s.queues = v.shown(s.holds, s.queues)
		for next := time.After(interval); next != nil; {
			if err := show(s); err != nil {
				return exit.Printed(err)
			}
			select {
			case <-next:
				next = nil
			case <-redraw:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// follow returns a function that prints the holds if they have changed, into a pipe or a file.
func (v *View) follow() func(sight) error {
	var shown settled
	said := "" // the last line about a store that does not answer
	printedOnce := false
	return func(s sight) error {
		if s.err != nil {
			if text := noAnswer(s.err); text != said {
				output.Say("%s: %s", v.Where.Name(), text)
				said = text
			}
			return nil
		}
		if said != "" {
			output.Say("%s: answers again", v.Where.Name())
			said = ""
		}
		now := settle(s.holds, s.queues)
		if printedOnce && reflect.DeepEqual(now, shown) {
			return nil
		}
		shown, printedOnce = now, true
		if v.JSON {
			return output.HoldsJSONLine(os.Stdout, s.holds, s.queues)
		}
		_, err := fmt.Printf("%s\n%s\n\n", v.title(s), strings.Join(v.table(s, math.MaxInt), "\n"))
		return err
	}
}

// redraw returns a function that draws the holds on the terminal. If the store does not answer,
// those that it has shown last stay.
func (v *View) redraw() func(sight) error {
	screen := output.Screen{Terminal: os.Stdout}
	var last sight
	return func(s sight) error {
		trouble := ""
		if s.err == nil {
			last = s
		} else {
			trouble = noAnswer(s.err)
		}
		return screen.Draw(func(columns, room int) []string {
			if last.begun.IsZero() {
				return []string{trouble}
			}
			text := append([]string{v.title(last), trouble}, v.table(last, columns)...)
			if more := len(text) - room; more > 0 {
				text = append(text[:max(room-1, 0)], fmt.Sprintf("and %d more; holdfast status shows all", more+1))
			}
			return text
		})
	}
}

// title names the store and the time.
func (v *View) title(s sight) string {
	return fmt.Sprintf("%s  %s", words.Printable(v.Where.Name()), s.begun.Format(time.RFC3339))
}

// table returns the lines of the table, without its IDs if these columns are too few for it.
func (v *View) table(s sight, columns int) []string {
	rows := output.QueuedRows(s.holds, s.queues)
	if len(rows) == 1 {
		return []string{words.Printable(v.nothing())}
	}
	lines := func() []string {
		var b strings.Builder
		_ = output.Table(&b, rows) // to memory
		return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	}
	all := lines()
	if slices.ContainsFunc(all, func(line string) bool { return displaywidth.String(line) > columns }) {
		output.WithoutIDs(rows)
		all = lines()
	}
	return all
}

// noAnswer returns the line that shows an error.
func noAnswer(err error) string {
	return "no answer, trying again: " + output.Reason(cmp.Or(errors.Unwrap(err), err))
}
