package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	idleWaiters = 1000
	idleFor     = 30 * time.Second // in which each waiter renews its place twice
)

// idleSetup is the setup of both processes.
type idleSetup struct {
	File string
	// OneResource: all wait for the same resource; otherwise each for its own.
	OneResource bool
	For         time.Duration // duration of the measurement
}

func (s idleSetup) resource(i int) string {
	if s.OneResource {
		return "resource"
	}
	return fmt.Sprintf("resource-%d", i)
}

// idleReport is the cost that the waiting process reports.
type idleReport struct {
	Busy, Took time.Duration
	Calls      int64
	Memory     int64 // of all waiters, in bytes
}

// measureIdle measures the cost of waiting without events, with a goroutine for each of many
// resources, or with all goroutines for one resource. Another process holds the resources.
func measureIdle(ctx context.Context, dir string) []result {
	var results []result
	for _, one := range []bool{true, false} {
		setup := idleSetup{File: filepath.Join(dir, fmt.Sprint(one)), OneResource: one, For: scaled(idleFor)}
		got := idle(ctx, setup)
		of := "of a resource each"
		if one {
			of = "of one resource"
		}
		results = append(results, result{
			What:  "SQLite, 1,000 idle waiters " + of + ", share of a core",
			Value: 100 * got.Busy.Seconds() / got.Took.Seconds(),
			Unit:  "%",
			Limit: 1,
			Detail: fmt.Sprintf("user and system time of the waiting process: %v in %.1f s, with %d calls of the store",
				got.Busy.Round(time.Millisecond), got.Took.Seconds(), got.Calls),
		})
	}
	return results
}

// measureWaiterMemory measures the memory of each waiter in this process. The queue is in the
// file.
func measureWaiterMemory(ctx context.Context, dir string) []result {
	var results []result
	for _, one := range []bool{true, false} {
		got := idle(ctx, idleSetup{File: filepath.Join(dir, fmt.Sprint(one)), OneResource: one})
		of := "of a resource each"
		if one {
			of = "of one resource"
		}
		results = append(results, result{
			What:   "SQLite, 1,000 idle waiters " + of + ", memory of each",
			Value:  float64(got.Memory) / idleWaiters / 1024,
			Unit:   "KiB",
			Figure: true,
			Detail: "heap and stacks after GC, with a goroutine for each waiter",
		})
	}
	return results
}

func idle(ctx context.Context, setup idleSetup) (got idleReport) {
	// Start the holder first: it must hold when the other one begins to wait.
	for _, name := range []string{"holder", "idle"} {
		w := startWorker(ctx, name)
		defer finish(w.stop)
		check(w.send(setup))
		check(w.receive(&got))
	}
	return got
}

// workHolder holds all resources until it is told to stop.
func workHolder(ctx context.Context, p *peer) {
	var setup idleSetup
	check(p.receive(&setup))
	store := must(sqlitelock.Open(ctx, setup.File, nil))
	defer finish(store.Close)
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	for i := range idleWaiters {
		_, err := client.TryLock(ctx, setup.resource(i), &holdfast.LockOptions{TTL: time.Hour})
		if !setup.OneResource || !errors.Is(err, holdfast.ErrHeld) {
			check(err)
		}
	}
	check(p.send(idleReport{}))
	check(p.receive(new(bool))) // until the end
}

// workIdle waits, and reports the cost.
func workIdle(ctx context.Context, p *peer) {
	var setup idleSetup
	check(p.receive(&setup))
	s := must(sqlitelock.Open(ctx, setup.File, nil))
	defer finish(s.Close)
	store := &counted{Store: s}
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	wait, endWait := context.WithCancel(ctx)
	defer endWait()
	before := inUse()
	var begun atomic.Int64
	outcomes := make(chan error, idleWaiters)
	for i := range idleWaiters {
		go func() {
			begun.Add(1)
			_, err := client.Lock(wait, setup.resource(i), nil)
			outcomes <- err
		}()
	}
	heads := int64(idleWaiters)
	if setup.OneResource {
		heads = 1
	}
	// The first waiter of each resource asks, subscribes, and asks again.
	for begun.Load() < idleWaiters || store.acquires.Load() < 2*heads {
		time.Sleep(10 * time.Millisecond)
	}
	placed(ctx, s, heads)
	memory := inUse() - before
	got := idleTime(store, setup.For)
	got.Memory = memory
	endWait()
	for range idleWaiters {
		if err := <-outcomes; !errors.Is(err, context.Canceled) {
			failf("a waiter did not wait: %w", err)
		}
	}
	check(p.send(got))
}

// placed waits until that many waiters have a place in the store's queue. They take it after a
// second, and keep it for a minute.
func placed(ctx context.Context, s driver.Store, waiters int64) {
	for n := int64(0); n < waiters; {
		time.Sleep(time.Second)
		n = 0
		for _, err := range driver.Waiters(ctx, s, driver.Filter{}) {
			check(err)
			n++
		}
	}
}

// idleTime returns what this process uses while the time passes.
func idleTime(store *counted, lasts time.Duration) idleReport {
	busy := must(processorTime())
	calls, start := store.all(), time.Now()
	time.Sleep(lasts)
	got := idleReport{Took: time.Since(start), Calls: store.all() - calls}
	got.Busy = must(processorTime()) - busy
	return got
}
