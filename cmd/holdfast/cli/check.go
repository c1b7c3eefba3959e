package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fitness"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [flags]",
		Short: "Find out whether a store is fit to lock on",
		Long: `Tries on a resource of its own all that locking needs of the store, measures how
long it takes, compares the clocks, and says what the store promises and what
that means. It touches nothing that others have locked. What it locked is
released; of its own resource a record remains, which sweep removes when it is a
day old.

RESULT is ok; note, for something to know; warn, for something that the store is
not good for as it is; or fail. The exit status is 69 if something failed, and
else 0.`,
		Example: `  holdfast check
  holdfast check --store sqlite:///var/lib/jobs/locks.db
  holdfast check --json | jq .figures.shortestTtlMs`,
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
	}
	store := storeFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		where, err := store()
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		report, err := check(ctx, where)
		if err != nil {
			return err
		}
		if *asJSON {
			err = output.JSON(os.Stdout, checkedOf(where, report))
		} else {
			err = writeFindings(os.Stdout, report.Findings)
		}
		if err != nil {
			return exit.Printed(err)
		}
		if f := report.Failed(); f != nil {
			return exit.Errorf(exit.Store, "the store %s is not fit to lock on: %s", where.Name(), f.Text)
		}
		return nil
	}
	return cmd
}

// check checks the store. One that is a file which nobody has made yet is not made
// by that: another beside it is checked in its place.
func check(ctx context.Context, where location.Location) (fitness.Report, error) {
	store := fitness.Finding{Check: "store", Result: fitness.Note, Text: where.Name()}
	if where.Unasked {
		store.Text += ", this user's on this host, since none is named"
	}
	checked := where
	if where.Empty() {
		trial, err := where.Trial()
		if err != nil {
			return fitness.Report{Findings: []fitness.Finding{store, {
				Check: "open", Result: fitness.Fail,
				Text: "it is not made yet, and cannot be: " + output.Reason(err) + ". Mend that, or name another store with --store",
			}}}, nil
		}
		defer os.RemoveAll(filepath.Dir(trial.File))
		store.Text += ". It does not exist yet; the first lock creates it. What follows was tried with another file in the same place, now removed"
		checked = trial
	}
	report := fitness.Check(ctx, checked.Client)
	if err := tidiedUp(ctx); err != nil {
		return report, err
	}
	for i, f := range report.Findings {
		if f.Err != nil {
			report.Findings[i].Text += ": " + checked.Failure(f.Err).Error()
		}
	}
	report.Findings = append([]fitness.Finding{store}, report.Findings...)
	return report, nil
}

func writeFindings(out io.Writer, findings []fitness.Finding) error {
	rows := [][]string{{"RESULT", "CHECK", "FINDING"}}
	for _, f := range findings {
		rows = append(rows, []string{string(f.Result), f.Check, f.Text})
	}
	return output.Table(out, rows)
}

// checked is a report in JSON. Scripts read it: a field may be added, none changed.
type checked struct {
	Store    string    `json:"store"`
	Fit      bool      `json:"fit"`
	Findings []finding `json:"findings"`
	Traits   *traits   `json:"traits"`
	Figures  figures   `json:"figures"`
}

type finding struct {
	Check  string          `json:"check"`
	Result fitness.Verdict `json:"result"`
	Text   string          `json:"text"`
}

type traits struct {
	Name        string `json:"name"`
	Reach       string `json:"reach"`
	ServerClock bool   `json:"serverClock"`
	Notifies    bool   `json:"notifies"`
	Durable     bool   `json:"durable"`
	Shared      bool   `json:"shared"`
	Fencing     string `json:"fencing"`
	Failover    string `json:"failover"` // empty: there is nothing to fail over to
}

func traitsOf(t driver.Traits) traits {
	return traits{
		Name: t.Name, Reach: string(t.Reach), ServerClock: t.ServerClock, Notifies: t.Notifies,
		Durable: t.Durable, Shared: t.Shared, Fencing: string(t.Fencing), Failover: string(t.Failover),
	}
}

// figures are null as far as they were not measured.
type figures struct {
	Pair               *times   `json:"acquireAndRelease"`
	Renewal            *times   `json:"renewal"`
	HandOver           *times   `json:"handOver"`
	ClockAheadMs       *float64 `json:"clockAheadMs"`
	ClockUncertaintyMs *float64 `json:"clockUncertaintyMs"`
	ShortestTTLMs      *int64   `json:"shortestTtlMs"`
}

func checkedOf(where location.Location, r fitness.Report) checked {
	c := checked{Store: where.Name(), Fit: r.Failed() == nil, Figures: figures{
		Pair: timesOf(r.Pair), Renewal: timesOf(r.Renewal), HandOver: timesOf(r.HandOver),
	}}
	for _, f := range r.Findings {
		c.Findings = append(c.Findings, finding{f.Check, f.Result, f.Text})
	}
	if t := r.Traits; t.Name != "" {
		c.Traits = new(traitsOf(t))
	}
	if r.Clock != nil {
		c.Figures.ClockAheadMs, c.Figures.ClockUncertaintyMs = new(milliseconds(r.Clock.Ahead)), new(milliseconds(r.Clock.GiveOrTake))
	}
	if r.TTL != 0 {
		c.Figures.ShortestTTLMs = new(r.TTL.Milliseconds())
	}
	return c
}

// times are samples in JSON.
type times struct {
	Count int64   `json:"count"`
	P50Ms float64 `json:"p50Ms"`
	P90Ms float64 `json:"p90Ms"`
	P99Ms float64 `json:"p99Ms"`
	MaxMs float64 `json:"maxMs"`
}

// timesOf is nil, which is null in JSON, for what was not measured.
func timesOf(s *measure.Samples) *times {
	if s == nil {
		return nil
	}
	return &times{
		Count: s.Count(), P50Ms: milliseconds(s.Quantile(0.5)), P90Ms: milliseconds(s.Quantile(0.9)),
		P99Ms: milliseconds(s.Quantile(0.99)), MaxMs: milliseconds(s.Max()),
	}
}

// milliseconds has as many digits as are meant.
func milliseconds(d time.Duration) float64 {
	return float64(measure.Round(d)) / float64(time.Millisecond)
}
