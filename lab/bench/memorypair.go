package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// measureMemoryPair compares Lock and Unlock on the store in memory, which itself costs almost
// nothing, with making and cancelling a context: the cost of the Client.
func measureMemoryPair(ctx context.Context, _ string) []result {
	client := holdfast.New(memlock.New(nil), nil)
	defer finish(client.Close)
	// Rounds are so short that most run uninterrupted, and about equally long on both sides.
	const rounds, eachBare, each = 2000, 1000, 70
	var bare, locks []time.Duration
	inTurns(rounds, func(counts bool) {
		start := time.Now()
		for range eachBare {
			_, cancel := context.WithCancelCause(context.Background())
			cancel(nil)
		}
		if counts {
			bare = append(bare, time.Since(start)/eachBare)
		}
	}, func(counts bool) {
		start := time.Now()
		for range each {
			check(lockAndUnlock(ctx, client, "resource"))
		}
		if counts {
			locks = append(locks, time.Since(start)/each)
		}
	})
	allocations, _ := allocated(10_000, func() error { return lockAndUnlock(ctx, client, "resource") })
	return []result{{
		What:   "memory, Lock and Unlock per WithCancelCause and cancel, 1 goroutine",
		Value:  float64(median(locks)) / float64(median(bare)),
		Limit:  15,
		Detail: fmt.Sprintf("medians of %d rounds in turns: %v and %v", rounds, median(locks), median(bare)),
	}, {
		What:   "memory, allocations of Lock and Unlock",
		Value:  allocations,
		Limit:  15,
		Detail: "mean of 10,000",
	}}
}

// allocated returns the average number and bytes of allocations of f.
func allocated(times int, f func() error) (count, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		check(f())
	}
	runtime.ReadMemStats(&after)
	of := func(before, after uint64) float64 { return float64(after-before) / float64(times) }
	return of(before.Mallocs, after.Mallocs), of(before.TotalAlloc, after.TotalAlloc)
}
