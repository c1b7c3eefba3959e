// Package historycmd shows what became of the holds of a resource, as a server has kept it.
package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
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
	return exit.Printed(show(os.Stdout, os.Stderr, where, q, h))
}

// show prints the events as a table, and what they do not say on notes.
func show(out, notes io.Writer, where location.Location, q httplock.HistoryQuery, h wire.History) error {
	for _, line := range about(h.Kept) {
		if _, err := fmt.Fprintln(notes, words.Printable(line)); err != nil {
			return err
		}
	}
	if len(h.Events) == 0 {
		_, err := fmt.Fprintf(notes, "there is no event of %q\n", q.Resource)
		return err
	}
	if err := output.Table(out, rows(h.Events)); err != nil {
		return err
	}
	if !h.Truncated {
		return nil
	}
	_, err := fmt.Fprintf(notes, "there are more: holdfast history%s%s --before %d %s\n",
		where.Flag(), chosen(q), h.Events[len(h.Events)-1].Number, words.ShellQuoted(q.Resource))
	return err
}

// DefaultLimit is how many events there are at most.
const DefaultLimit = 100

// chosen returns the flags that choose the events of the next part as well.
func chosen(q httplock.HistoryQuery) (flags string) {
	if q.Since != 0 {
		flags = " --since " + q.Since.String()
	}
	if q.Limit != DefaultLimit {
		flags += " --limit " + strconv.Itoa(q.Limit)
	}
	return flags
}

// about says what the history has, and what not.
func about(k wire.Kept) []string {
	server := "this server"
	if k.Server != "" {
		server = k.Server
	}
	ago := k.SinceAgoMs.Duration()
	text := fmt.Sprintf("kept by %s since %s", server, k.Since.Local().Format(layout([]time.Time{k.Since}, k.Since.Add(ago))))
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
		times := []time.Time{g.From}
		if g.To != nil {
			times = append(times, *g.To)
		}
		form := layout(times, k.Since.Add(k.SinceAgoMs.Duration()))
		to := "now"
		if g.To != nil {
			to = g.To.Local().Format(form)
		}
		lines = append(lines, fmt.Sprintf("gap from %s to %s (%s): %s", g.From.Local().Format(form), to, output.Left(g.LengthMs.Duration()), why))
	}
	return lines
}

// rows returns the rows of the table, the titles first.
func rows(events []wire.HistoryEvent) [][]string {
	times := make([]time.Time, len(events))
	var now time.Time // by the server's clock
	for i, e := range events {
		times[i], now = e.At, e.At.Add(e.AgoMs.Duration())
	}
	form := layout(times, now)
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
			e.At.Local().Format(form), e.Event, span(e.HeldMs, e.Event == "granted"), ago(e.RenewedAgoMs),
			e.Owner, e.Host, e.Ref, comment,
		})
	}
	return all
}

// layout returns the layout of times, which leaves out the date if all are of today.
func layout(times []time.Time, now time.Time) string {
	today := now.Local().Format(time.DateOnly)
	if slices.ContainsFunc(times, func(t time.Time) bool { return t.Local().Format(time.DateOnly) != today }) {
		return time.DateTime
	}
	return time.TimeOnly
}

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
