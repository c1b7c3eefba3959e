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
	idleFor     = 30 * time.Second // in which each keeps its place twice
)

// idleSetup is what both processes are told.
type idleSetup struct {
	File string
	// OneResource: all wait for the same one, else each for its own.
	OneResource bool
	For         time.Duration // is measured
}

func (s idleSetup) resource(i int) string {
	if s.OneResource {
		return "resource"
	}
	return fmt.Sprintf("resource-%d", i)
}

// idleReport is what the waiting process says of its idle time.
type idleReport struct {
	Busy, Took time.Duration
	Calls      int64
}

// measureIdle tells what it costs a process to wait, with a goroutine for each
// of many resources, or with all for one, while another process holds and
// nothing happens.
func measureIdle(ctx context.Context, dir string) ([]result, error) {
	var results []result
	for _, one := range []bool{true, false} {
		setup := idleSetup{File: filepath.Join(dir, fmt.Sprint(one)), OneResource: one, For: scaled(idleFor)}
		got, err := idle(ctx, setup)
		if err != nil {
			return nil, err
		}
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
	return results, nil
}

func idle(ctx context.Context, setup idleSetup) (got idleReport, err error) {
	// In this order: the holder must hold when the other begins to wait.
	for _, name := range []string{"holder", "idle"} {
		w, err := startWorker(ctx, name)
		if err != nil {
			return got, err
		}
		defer func() { err = errors.Join(err, w.stop()) }()
		if err := w.send(setup); err != nil {
			return got, err
		}
		if err := w.receive(&got); err != nil {
			return got, err
		}
	}
	return got, nil
}

// workHolder holds all resources until it is told to stop.
func workHolder(ctx context.Context, p *peer) (err error) {
	var setup idleSetup
	if err := p.receive(&setup); err != nil {
		return err
	}
	store, err := sqlitelock.Open(ctx, setup.File, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client := holdfast.New(store, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	for i := range idleWaiters {
		_, err := client.TryLock(ctx, setup.resource(i), &holdfast.LockOptions{TTL: time.Hour})
		if err != nil && !(setup.OneResource && errors.Is(err, holdfast.ErrHeld)) {
			return err
		}
	}
	if err := p.send(idleReport{}); err != nil {
		return err
	}
	return p.receive(new(bool)) // the end
}

// workIdle waits, and says what that cost.
func workIdle(ctx context.Context, p *peer) (err error) {
	var setup idleSetup
	if err := p.receive(&setup); err != nil {
		return err
	}
	s, err := sqlitelock.Open(ctx, setup.File, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	store := &counted{Store: s}
	client := holdfast.New(store, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	wait, endWait := context.WithCancel(ctx)
	defer endWait()
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
	// Each head asks, subscribes, and asks again.
	for begun.Load() < idleWaiters || store.acquires.Load() < 2*heads {
		time.Sleep(10 * time.Millisecond)
	}
	if err := placed(ctx, s, heads); err != nil {
		return err
	}
	got, err := idleTime(store, setup.For)
	if err != nil {
		return err
	}
	endWait()
	for range idleWaiters {
		if err := <-outcomes; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("a waiter did not wait: %w", err)
		}
	}
	return p.send(got)
}

// placed returns when so many have their place in the store's queue. They take it after
// a second, and keep it for a minute.
func placed(ctx context.Context, s driver.Store, waiters int64) error {
	for {
		time.Sleep(time.Second)
		var n int64
		for _, err := range driver.Waiters(ctx, s, driver.Filter{}) {
			if err != nil {
				return err
			}
			n++
		}
		if n >= waiters {
			return nil
		}
	}
}

// idleTime is what this process needs while the time passes.
func idleTime(store *counted, lasts time.Duration) (idleReport, error) {
	busy, err := processorTime()
	if err != nil {
		return idleReport{}, err
	}
	calls, start := store.all(), time.Now()
	time.Sleep(lasts)
	got := idleReport{Took: time.Since(start), Calls: store.all() - calls}
	after, err := processorTime()
	got.Busy = after - busy
	return got, err
}
