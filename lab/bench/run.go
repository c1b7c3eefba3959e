package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// buildCommand builds the command holdfast and returns its path.
func buildCommand(ctx context.Context, dir string) string {
	binary := filepath.Join(dir, "holdfast")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../../cmd/holdfast", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		failf("%w\n%s", err, out)
	}
	return binary
}

// measureRun compares the time of a command run by holdfast with that of one run by flock, from
// start to end. The target is a time, not a ratio. Other load of the machine, such as writing
// the new binary to disk, can only increase it, so the fastest of several series counts.
func measureRun(ctx context.Context, dir string) []result {
	binary := buildCommand(ctx, dir)
	const rounds, series = 50, 3
	var ours, flocks []time.Duration
	timed := func(times *[]time.Duration, name string, args ...string) func(bool) {
		return func(counts bool) {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
			start := time.Now()
			if err := cmd.Run(); err != nil {
				failf("%s: %w", name, err)
			}
			if counts {
				*times = append(*times, time.Since(start))
			}
		}
	}
	for range series {
		time.Sleep(scaled(5 * time.Second))
		var these, those []time.Duration
		inTurns(rounds,
			timed(&these, binary, "run", "resource", "--", "true"),
			timed(&those, "flock", filepath.Join(dir, "flock"), "true"))
		if ours == nil || median(these)-median(those) < median(ours)-median(flocks) {
			ours, flocks = these, those
		}
	}
	return []result{{
		What:  "holdfast run R -- true, longer than flock FILE true",
		Value: milliseconds(median(ours) - median(flocks)),
		Unit:  "ms",
		Limit: 20,
		Detail: fmt.Sprintf("medians of %d runs in turns, the quickest of %d series: %.1f ms and %.1f ms; p90 %.1f ms and %.1f ms",
			rounds, series, milliseconds(median(ours)), milliseconds(median(flocks)),
			milliseconds(quantile(ours, 0.9)), milliseconds(quantile(flocks, 0.9))),
	}}
}
