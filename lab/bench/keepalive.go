package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// The size of the measurement.
const (
	heldTotal = 10_000
	startOver = 3 * time.Second // holds start at random times within this
	watchOver = 9 * time.Second // and are watched for this long afterwards
)

var heldTTLs = []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second}

// measureKeepAlive lets one Client keep many holds alive in real time, and measures its
// requests to the store, its goroutines and its memory.
func measureKeepAlive(ctx context.Context, _ string) []result {
	names := make([]string, heldTotal)
	for i := range names {
		names[i] = fmt.Sprintf("resource-%d", i)
	}
	ofStore := storeMemory(ctx, names)

	holds := make([]*holdfast.Hold, 0, heldTotal)
	before := heap()
	store := &counted{Store: memlock.New(nil)}
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	holds = startMany(ctx, client, names[:10], holds)
	few := sampleGoroutines(ctx, time.Second)
	holds = startMany(ctx, client, names[10:], holds)
	calls := store.renewals.Load()
	start := time.Now()
	many := sampleGoroutines(ctx, watchOver)
	took := time.Since(start)
	calls = store.renewals.Load() - calls
	memory := float64(heap()-before) - ofStore
	for _, h := range holds {
		if cause := context.Cause(h.Context()); cause != nil {
			failf("a hold was lost: %w", cause)
		}
	}

	var allowed float64
	for _, ttl := range heldTTLs {
		period := ttl / 3
		allowed += heldTotal / float64(len(heldTTLs)) / 500 * float64(took) / float64(period)
	}
	return []result{{
		What:  "10,000 holds, renewals sent per 500 holds and renewal period",
		Value: float64(calls) / allowed,
		Limit: 1,
		Detail: fmt.Sprintf("%d calls of the store in %.1f s; one per 500 holds and TTL/3 would be %.0f; TTLs %v, begun over %v, store in memory",
			calls, took.Seconds(), allowed, heldTTLs, startOver),
	}, {
		What:  "10,000 holds, goroutines more than with 10 holds",
		Value: float64(median(many) - median(few)),
		Limit: 0,
		Detail: fmt.Sprintf("medians of samples each ms: %d and %d; the most at once, while batches were under way: %d and %d",
			median(many), median(few), slices.Max(many), slices.Max(few)),
	}, {
		What:  "10,000 holds, memory of each",
		Value: memory / heldTotal / 1024,
		Unit:  "KiB",
		Limit: 1.5,
		Detail: fmt.Sprintf("heap after GC with Context().Done() taken of each, without the %.2f KiB each that the store in memory keeps when asked without a Client",
			ofStore/heldTotal/1024),
	}}
}

// startMany locks all names at random times within startOver, and appends the holds to holds.
func startMany(ctx context.Context, client *holdfast.Client, names []string, holds []*holdfast.Hold) []*holdfast.Hold {
	at := make([]time.Duration, len(names))
	for i := range at {
		at[i] = rand.N(startOver)
	}
	slices.Sort(at)
	start := time.Now()
	for i, name := range names {
		time.Sleep(at[i] - time.Since(start))
		h := must(client.Lock(ctx, name, &holdfast.LockOptions{TTL: heldTTLs[rand.N(len(heldTTLs))]}))
		h.Context().Done() // makes the channel
		holds = append(holds, h)
	}
	return holds
}

// storeMemory returns the memory that the store needs for the same holds without a Client.
func storeMemory(ctx context.Context, names []string) float64 {
	before := heap()
	store := memlock.New(nil)
	// These are the details that the Client puts into each request, the same strings each time.
	details := driver.Details{Owner: "owner", Host: "host"}
	for _, name := range names {
		must(store.Acquire(ctx, driver.AcquireRequest{
			Resource: name, LockID: driver.NewHoldID().String(), HoldID: driver.NewHoldID(),
			TTL: time.Minute, Details: details,
		}))
	}
	used := float64(heap() - before)
	check(store.Close())
	return used
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // also frees what finalizers and pools release
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inUse returns the bytes of heap and of the stacks of goroutines.
func inUse() int64 {
	heap := heap()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap + int64(m.StackInuse)
}

// sampleGoroutines counts goroutines every millisecond.
func sampleGoroutines(ctx context.Context, d time.Duration) (counts []int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; <-tick.C {
		counts = append(counts, runtime.NumGoroutine())
	}
	return counts
}
