// Package historycmd shows what became of the holds of a resource, as a server has kept it.
package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/words"
)

// Run prints the events that the query chooses.
func Run(ctx context.Context, where location.Location, q httplock.HistoryQuery, asJSON bool) error {
	if !where.IsServer() {
		return exit.Usagef("%s is a store, and keeps no history; name a server that was started with --history, as --store http://127.0.0.1:4653",
			where.Name())
	}
	store, err := where.Driver(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	h, err := store.(*httplock.Store).History(ctx, q) // as IsServer says
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		return exit.Errorf(exit.Store, "the server %s keeps no history; start it with --history FILE", where.Name())
	case err != nil:
		return where.Failure(fmt.Errorf("history: %w", err))
	case asJSON:
		if h.Events == nil {
			h.Events = []wire.HistoryEvent{}
		}
		return exit.Printed(output.JSON(os.Stdout, h))
	}
	return exit.Printed(show(os.Stdout, os.Stderr, q.Resource, h))
}

// show prints the events as a table, and what they do not say on notes.
func show(out, notes io.Writer, resource string, h wire.History) error {
	for _, line := range about(h.Kept) {
		if _, err := fmt.Fprintln(notes, words.Printable(line)); err != nil {
			return err
		}
	}
	if len(h.Events) == 0 {
		_, err := fmt.Fprintf(notes, "there is no event of %q\n", resource)
		return err
	}
	err := output.Table(out, rows(h.Events))
	if err == nil && h.Truncated {
		_, err = fmt.Fprintf(notes, "there are more: --limit shows up to %d\n", wire.MaxList)
	}
	return err
}

// DefaultLimit is how many events there are at most.
const DefaultLimit = 100

// about says what the history has, and what not.
func about(k wire.Kept) []string {
	server := "this server"
	if k.Server != "" {
		server = k.Server
	}
	text := fmt.Sprintf("kept by %s since %s", server, when(k.Since))
	if k.PeriodMs != nil {
		text += fmt.Sprintf("; holds of others that are shorter than %s are not seen", output.Left(k.PeriodMs.Duration()))
	}
	lines := []string{text}
	if k.Blind {
		lines = append(lines, "looks at the store fail, or do not show all of it: what others do is not seen now")
	}
	lines = append(lines, gaps(k)...)
	if k.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("%s missing: the file could not be written, or not fast enough",
			words.Count(int(min(k.Dropped, 1<<31)), "event is", "events are")))
	}
	if k.FailingMs != nil {
		lines = append(lines, fmt.Sprintf("the file cannot be written for %s already: see the log of the server", output.Left(k.FailingMs.Duration())))
	}
	return lines
}

// maxGaps is how many gaps are named.
const maxGaps = 3

// gaps says when the history did not see all.
func gaps(k wire.Kept) (lines []string) {
	for i, g := range k.Gaps {
		if i == maxGaps {
			return append(lines, fmt.Sprintf("and %s before: --json shows all", words.Count(len(k.Gaps)-i, "more gap", "more gaps")))
		}
		why := "looks at the store failed: what others did was not seen"
		if g.Cause == "down" {
			why = "the server was not there: nothing was seen"
		}
		to := "now"
		if g.To != nil {
			to = when(*g.To)
		}
		lines = append(lines, fmt.Sprintf("gap from %s to %s (%s): %s", when(g.From), to, output.Left(g.LengthMs.Duration()), why))
	}
	return lines
}

// rows returns the rows of the table, the titles first.
func rows(events []wire.HistoryEvent) [][]string {
	all := [][]string{{"TIME", "EVENT", "HELD", "RENEWED", "OWNER", "HOST", "REF", "COMMENT"}}
	for _, e := range events {
		comment := e.Comment
		switch { // who has released the hold by force, and why
		case e.Caller != "":
			comment = e.Caller + ": " + e.Reason
		case e.Reason != "":
			comment = e.Reason
		}
		all = append(all, []string{
			when(e.At), e.Event, span(e.HeldMs, e.Event == "granted"), ago(e.RenewedAgoMs),
			e.Owner, e.Host, e.Ref, comment,
		})
	}
	return all
}

// when returns a time as it is printed.
func when(t time.Time) string { return t.Local().Format(time.DateTime) }

func span(m *wire.Millis, begins bool) string {
	switch {
	case begins:
		return "-"
	case m == nil:
		return "?"
	}
	return output.Left(length(m.Duration()))
}

// length rounds a time to what is printed of it: a hold that ended by its TTL of 30 s is seen
// to have lasted that long, a millisecond more or less.
func length(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func ago(m *wire.Millis) string {
	if m == nil {
		return "-"
	}
	return output.Left(m.Duration()) + " ago"
}
