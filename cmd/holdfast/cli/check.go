package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fitness"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "check [flags]",
		Short:      "Check whether a store is fit for locks",
		SuggestFor: []string{"doctor", "test", "bench"},
		Long: `Tries every operation that locks need on a resource of its own, compares the
answers with the rules of locks, measures the times, compares the clocks, and
prints what the store promises and what that means. It does not touch other
resources. check releases its lock. The record of its resource remains until
sweep removes it when it is a day old.

RESULT is ok; note, for something to know; warn, for something that the store
cannot be used for as it is; or fail. The exit status is 69 if something failed,
otherwise 0. If check is killed, its locks end with their TTL, but one without
an end needs unlock --force.

--json prints store, fit, findings (check, result, text), traits and figures:
acquireAndRelease, renewal and handOver (count, p50Ms, p90Ms, p99Ms, maxMs),
clockAheadMs, clockUncertaintyMs and shortestTtlMs.`,
		Example: `  holdfast check
  holdfast check --store sqlite:///var/lib/jobs/locks.db
  holdfast check --json | jq .figures.shortestTtlMs`,
		Args: noArgs,
	}
	store := storeFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		where, err := store()
		if err != nil {
			return err
		}
		// A second signal does not cut off the release of the locks, which takes some seconds.
		ctx, stop := process.UntilEnded(cmd.Context())
		defer stop()
		report, err := check(ctx, where)
		if err != nil {
			return err
		}
		if *asJSON {
			err = output.JSON(os.Stdout, report.JSON(where.Name()))
		} else {
			err = output.Table(os.Stdout, report.Rows())
		}
		if err != nil {
			return exit.Printed(err)
		}
		f := report.Failed()
		if f != nil && errors.Is(f.Err, httplock.ErrDenied) {
			return exit.Errorf(exit.Store, "nobody knows whether the store %s is fit to lock on: check needs the rights to lock and to look on \"holdfast/check/*\": %s", where.Name(), f.Text)
		}
		if f != nil {
			return exit.Errorf(exit.Store, "the store %s is not fit to lock on: %s", where.Name(), f.Text)
		}
		return nil
	}
	return cmd
}

// check checks the store. It does not create a file that does not exist yet: it
// checks another one in the same place instead.
func check(ctx context.Context, where location.Location) (fitness.Report, error) {
	store := fitness.Finding{Check: "store", Result: fitness.Note, Text: where.Title()}
	checked := where
	if where.Empty() {
		trial, err := where.Trial()
		if err != nil {
			return fitness.Report{Findings: []fitness.Finding{store, {
				Check: "open", Result: fitness.Fail,
				Text: "it does not exist yet and cannot be created: " + output.Reason(err) + ". Fix this, or choose another store with --store",
			}}}, nil
		}
		defer os.RemoveAll(filepath.Dir(trial.File))
		store.Text += ". It does not exist yet; the first lock creates it. What follows was tried with another file in the same place, now removed"
		checked = trial
	}
	report := fitness.Check(ctx, func(ctx context.Context) (driver.Store, error) {
		return driver.Open(ctx, checked.URL)
	})
	report.Findings = append(report.Findings, fitness.Isolation())
	if i, ok := errors.AsType[process.Interruption](context.Cause(ctx)); ok {
		left := fmt.Sprintf("what was locked is released, or ends by itself within %v", holdfast.DefaultTTL)
		if report.Left != "" {
			left = fmt.Sprintf("%q may be held without an end now: holdfast unlock --force releases it", report.Left)
		}
		return report, exit.Killed(i.Signal, fmt.Sprintf("stopped by a signal (%v); %s", i.Signal, left))
	}
	for i, f := range report.Findings {
		if f.Err != nil {
			report.Findings[i].Text += ": " + checked.Failure(f.Err).Error()
		}
	}
	report.Findings = append([]fitness.Finding{store}, report.Findings...)
	return report, nil
}
