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

// Run prints the holds that the query chooses.
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
		if h.Holds == nil {
			h.Holds = []wire.PastHold{}
		}
		return exit.Printed(output.JSON(os.Stdout, h))
	}
	return exit.Printed(show(os.Stdout, os.Stderr, q.Resource, h))
}

// show prints the holds as a table, and what they do not say on notes.
func show(out, notes io.Writer, resource string, h wire.History) error {
	for _, line := range about(h.Kept) {
		if _, err := fmt.Fprintln(notes, words.Printable(line)); err != nil {
			return err
		}
	}
	if len(h.Holds) == 0 {
		_, err := fmt.Fprintf(notes, "there is no hold of %q\n", resource)
		return err
	}
	err := output.Table(out, rows(h.Holds))
	if err == nil && h.Truncated {
		_, err = fmt.Fprintf(notes, "there are more: --limit shows up to %d\n", wire.MaxList)
	}
	return err
}

// DefaultLimit is how many holds there are at most.
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
	lines := append([]string{text}, gaps(k.Gaps)...)
	if k.Removed != nil {
		lines = append(lines, fmt.Sprintf("the file is full: some of the holds that began by %s are missing", when(*k.Removed)))
	}
	if k.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("%s missing: the file could not be written, or not fast enough",
			words.Count(int(min(k.Dropped, 1<<31)), "beginning or end is", "beginnings and ends are")))
	}
	if k.FailingMs != nil {
		lines = append(lines, fmt.Sprintf("the file cannot be written for %s already: see the log of the server", output.Left(k.FailingMs.Duration())))
	}
	return lines
}

// maxGaps is how many gaps are named.
const maxGaps = 3

// gaps says when the server did not look.
func gaps(all []wire.HistoryGap) (lines []string) {
	for i, g := range all {
		if i == maxGaps {
			return append(lines, fmt.Sprintf("and %s before: --json shows all", words.Count(len(all)-i, "more gap", "more gaps")))
		}
		to := "now"
		if g.To != nil {
			to = when(*g.To)
		}
		lines = append(lines, fmt.Sprintf("not looked between %s and %s", when(g.From), to))
	}
	return lines
}

// rows returns the rows of the table, the titles first.
func rows(holds []wire.PastHold) [][]string {
	all := [][]string{{"BEGAN", "ENDED", "HELD", "HOW", "OWNER", "HOST", "REF", "COMMENT"}}
	for _, h := range holds {
		ended, held, how, comment := "-", "-", h.How, h.Comment
		if h.Ended == nil {
			how = "held"
		} else {
			ended, held = moment(*h.Ended), output.Left(length(h.Ended.By.Sub(h.Began.By)))
		}
		switch { // who has released it by force, and why
		case h.By != "":
			comment = h.By + ": " + h.Reason
		case h.Reason != "":
			comment = h.Reason
		}
		all = append(all, []string{moment(h.Began), ended, held, how, h.Owner, h.Host, h.Ref, comment})
	}
	return all
}

// moment returns both times if they are not the same in print.
func moment(m wire.PastMoment) string {
	by := when(m.By)
	switch {
	case m.After == nil:
		return "by " + by
	case when(*m.After) == by:
		return by
	}
	return when(*m.After) + " to " + m.By.Local().Format(time.TimeOnly)
}

// when returns a time as it is printed.
func when(t time.Time) string { return t.Local().Format(time.DateTime) }

// length rounds a time to what is printed of it: a hold that ended by its TTL of 30 s is seen
// to have lasted that long, a millisecond more or less.
func length(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
