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
	// missedAfter is how long a hand-over takes at least that the waiter found by
	// its own back-off rather than by a signal: that is 1 s or more.
	missedAfter = 500 * time.Millisecond
)

// measureHandOver lets a process wait for what this one holds and measures how
// long after the unlock it is granted. This one does nothing after the unlock,
// so that no later write can bring the news.
func measureHandOver(ctx context.Context, dir string) (_ []result, err error) {
	file := filepath.Join(dir, "locks.db")
	store, err := sqlitelock.Open(ctx, file, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client := holdfast.New(store, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	w, err := startWorker(ctx, "waiter")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.send(file); err != nil {
		return nil, err
	}
	var took []time.Duration
	missed := 0
	for range handOvers {
		d, err := handOver(ctx, client, w)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
		if d >= missedAfter {
			missed++
		}
	}
	detail := fmt.Sprintf("%d hand-overs, from before Unlock here to the grant there: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, longest %.1f ms",
		handOvers, milliseconds(median(took)), milliseconds(quantile(took, 0.9)),
		milliseconds(quantile(took, 0.99)), milliseconds(slices.Max(took)))
	return []result{{
		What:   "SQLite, hand-over between processes, p99",
		Value:  milliseconds(quantile(took, 0.99)),
		Unit:   "ms",
		Limit:  50,
		Detail: detail,
	}, {
		What:   "SQLite, hand-overs missed of 1,000",
		Value:  float64(missed),
		Limit:  0,
		Detail: fmt.Sprintf("those that took %v or more", missedAfter),
	}}, nil
}

// handOver returns the time from unlock to grant.
func handOver(ctx context.Context, client *holdfast.Client, w *worker) (time.Duration, error) {
	h, err := client.Lock(ctx, "resource", nil)
	if err != nil {
		return 0, err
	}
	if err := w.send(true); err != nil {
		return 0, err
	}
	if err := w.receive(new(bool)); err != nil { // it waits
		return 0, err
	}
	// Not always at the same moment of its waiting.
	time.Sleep(rand.N(10 * time.Millisecond))
	unlocked, err := monotonic()
	if err != nil {
		return 0, err
	}
	if err := h.Unlock(ctx); err != nil {
		return 0, err
	}
	var granted time.Duration
	if err := w.receive(&granted); err != nil {
		return 0, err
	}
	return granted - unlocked, nil
}

// workWaiter locks, unlocks, and says when it was granted.
func workWaiter(ctx context.Context, p *peer) (err error) {
	var file string
	if err := p.receive(&file); err != nil {
		return err
	}
	store, err := sqlitelock.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	refusals := 0
	var sendErr error
	client := holdfast.New(store, &holdfast.Options{Trace: &holdfast.Trace{
		Attempt: func(a holdfast.AttemptInfo) {
			if !errors.Is(a.Err, holdfast.ErrHeld) {
				return
			}
			// The second refusal comes when the subscription is effective.
			if refusals++; refusals == 2 {
				sendErr = p.send(true)
			}
		},
	}})
	defer func() { err = errors.Join(err, client.Close()) }()
	for {
		if err := p.receive(new(bool)); err != nil {
			return err
		}
		refusals = 0
		h, err := client.Lock(ctx, "resource", nil)
		if err != nil {
			return err
		}
		granted, err := monotonic()
		if err := errors.Join(err, sendErr, h.Unlock(ctx)); err != nil {
			return err
		}
		if err := p.send(granted); err != nil {
			return err
		}
	}
}
