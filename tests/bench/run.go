package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// buildCommand builds the command holdfast and returns its file.
func buildCommand(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "holdfast")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../../cmd/holdfast", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

// measureRun compares a command run under a lock by holdfast with one run by
// flock, from start to end.
func measureRun(ctx context.Context, dir string) ([]result, error) {
	binary, err := buildCommand(ctx, dir)
	if err != nil {
		return nil, err
	}
	const rounds = 50
	var ours, flocks []time.Duration
	timed := func(times *[]time.Duration, name string, args ...string) func(bool) error {
		return func(counts bool) error {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if counts {
				*times = append(*times, time.Since(start))
			}
			return nil
		}
	}
	err = inTurns(rounds,
		timed(&ours, binary, "run", "resource", "--", "true"),
		timed(&flocks, "flock", filepath.Join(dir, "flock"), "true"))
	if err != nil {
		return nil, err
	}
	return []result{{
		What:  "holdfast run R -- true, longer than flock FILE true",
		Value: milliseconds(median(ours) - median(flocks)),
		Unit:  "ms",
		Limit: 20,
		Detail: fmt.Sprintf("medians of %d runs in turns: %.1f ms and %.1f ms; p90 %.1f ms and %.1f ms",
			rounds, milliseconds(median(ours)), milliseconds(median(flocks)),
			milliseconds(quantile(ours, 0.9)), milliseconds(quantile(flocks, 0.9))),
	}}, nil
}
