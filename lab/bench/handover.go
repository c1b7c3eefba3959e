package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	handOvers = 1000
	// missedAfter is the least duration of a hand-over that the waiter found by its back-off,
	// which takes seconds, and not by a signal.
	missedAfter = 500 * time.Millisecond

	// silentPairs of processes, each with a file of its own, hand over silentHandOvers times
	// after a silence.
	silentPairs     = 10
	silentHandOvers = 10
	silence         = 4 * time.Second // the longest silence; the shortest is a quarter of it
)

// measureHandOver lets a process wait for a lock that this process holds, and measures the time
// from unlock to grant. This process does nothing after the unlock, so that no later write can
// wake the waiter. It unlocks soon after the wait began, and also after a long time, because a
// waiter might look less often then.
func measureHandOver(ctx context.Context, dir string) []result {
	soon := handOverTimes(ctx, filepath.Join(dir, "soon.db"), scaled(handOvers), func() time.Duration {
		return rand.N(10 * time.Millisecond) // at a random moment of the wait
	})
	var late [silentPairs][]time.Duration
	atOnce(silentPairs, func(i int) {
		late[i] = handOverTimes(ctx, filepath.Join(dir, fmt.Sprintf("late-%d.db", i)), scaled(silentHandOvers),
			func() time.Duration { return silence/4 + rand.N(3*silence/4) })
	})
	afterSilence := slices.Concat(late[:]...)
	missed := 0
	for _, d := range slices.Concat(soon, afterSilence) {
		if d >= missedAfter {
			missed++
		}
	}
	p99 := func(what, row string, took []time.Duration) result {
		return result{
			What:  what,
			Value: milliseconds(quantile(took, 0.99)),
			Unit:  "ms",
			Limit: 50,
			Detail: fmt.Sprintf("%d hand-overs, from before Unlock to the grant in the other process: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, longest %.1f ms",
				len(took), milliseconds(median(took)), milliseconds(quantile(took, 0.9)),
				milliseconds(quantile(took, 0.99)), milliseconds(slices.Max(took))),
			Points: timePoints("hand-overs", row, took),
		}
	}
	return []result{
		p99("SQLite, hand-over between processes, p99", "SQLite, another process", soon),
		p99(fmt.Sprintf("SQLite, hand-over between processes after %v to %v of silence, p99", silence/4, silence), "SQLite, after silence", afterSilence),
		{
			What:   "SQLite, hand-overs missed",
			Value:  float64(missed),
			Limit:  0,
			Detail: fmt.Sprintf("of the %d above, those that took %v or more", len(soon)+len(afterSilence), missedAfter),
		},
	}
}

// handOverTimes hands over n times to another process, in that file.
func handOverTimes(ctx context.Context, file string, n int, wait func() time.Duration) (took []time.Duration) {
	store := must(sqlitelock.Open(ctx, file, nil))
	defer finish(store.Close)
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	w := startWorker(ctx, "waiter")
	defer finish(w.stop)
	check(w.send(file))
	for range n {
		took = append(took, handOver(ctx, client, w, wait()))
	}
	return took
}

// handOver returns the time from unlock to grant, for a process that has waited for the given
// time.
func handOver(ctx context.Context, client *holdfast.Client, w *worker, waited time.Duration) time.Duration {
	h := must(client.Lock(ctx, "resource", nil))
	check(w.send(true))
	check(w.receive(new(bool))) // it waits now
	time.Sleep(waited)
	unlocked := must(monotonic())
	check(h.Unlock(ctx))
	var granted time.Duration
	check(w.receive(&granted))
	return granted - unlocked
}

// workWaiter locks and unlocks, and reports when it was granted.
func workWaiter(ctx context.Context, p *peer) {
	var file string
	check(p.receive(&file))
	store := must(sqlitelock.Open(ctx, file, nil))
	defer finish(store.Close)
	var lockID string // of the last reported attempt
	refusals := 0     // of that attempt
	client := holdfast.New(store, &holdfast.Options{Trace: &holdfast.Trace{
		AttemptEnd: func(_ context.Context, a holdfast.AttemptInfo) {
			if !errors.Is(a.Err, holdfast.ErrHeld) {
				return
			}
			// The second refusal comes when the subscription is in effect.
			if a.LockID != lockID {
				lockID, refusals = a.LockID, 0
			}
			if refusals++; refusals == 2 {
				_ = p.send(true) // if it fails, the next receive fails too
			}
		},
	}})
	defer finish(client.Close)
	for {
		check(p.receive(new(bool)))
		h := must(client.Lock(ctx, "resource", nil))
		granted := must(monotonic())
		check(h.Unlock(ctx))
		check(p.send(granted))
	}
}
