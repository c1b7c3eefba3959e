package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// SweepResource is what Clients hold in a store that they keep clean, from one sweep
// to the next: see Options.NoSweep. Holds leaves it out unless it is asked for by
// name.
const SweepResource = "holdfast/sweep"

// A Client sweeps at a random moment of the hour after its first grant, and then once
// an hour or less. So many programs that live for seconds sweep now and then
// together, and one that takes no lock never does.
const (
	sweepEvery = time.Hour
	// sweepLease is how long SweepResource is held by a Client that has not swept
	// yet, or not to the end. One that is killed keeps others waiting no longer.
	sweepLease = time.Minute
	// sweepTime and sweepMost bound a sweep and each call of it.
	sweepTime = 10 * time.Second
	sweepMost = 1000
)

// Sweep drops expired holds and deletes the records of resources that have been
// idle for Options.Retention: all of them, at once. It is housekeeping, which
// Clients also do by themselves (Options.NoSweep): what is expired blocks nobody,
// swept or not. Any client may do it at any time.
func (c *Client) Sweep(ctx context.Context) (SweepResult, error) {
	if c.opts.Retention < minRetention {
		return SweepResult{}, fmt.Errorf("holdfast: sweep: %w: retention %v is below 1 min", ErrInvalid, c.opts.Retention)
	}
	if err := c.start(ctx); err != nil {
		return SweepResult{}, wrap("sweep", "", err)
	}
	defer c.work.Done()
	ctx, cancel := c.untilClose(ctx)
	defer cancel()
	r, err := c.store.Sweep(ctx, driver.SweepRequest{Idle: c.opts.Retention})
	if err != nil {
		err = wrap("sweep", "", c.whyEnded(err))
	}
	return r, err
}

// sweeps reports whether the Client sweeps by itself.
func (cfg *config) sweeps(store driver.Store) bool {
	return !cfg.opts.NoSweep && store.Traits().Sweeps
}

// planSweep sets the timer of the first sweep, if it is not set. c.mu is held.
func (c *Client) planSweep() {
	if c.sweeper == nil && c.sweeps(c.store) {
		c.sweeper = time.AfterFunc(rand.N(sweepEvery), c.sweepInTurn)
	}
}

// sweepInTurn sweeps if no other Client did within the last hour, and plans the next.
func (c *Client) sweepInTurn() {
	if c.begin() != nil {
		return
	}
	defer c.work.Done()
	ctx, cancel := c.untilClose(context.Background())
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, sweepTime)
	defer stop()
	next := c.trySweep(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.sweeper.Reset(next + rand.N(sweepEvery/4))
	}
}

// trySweep returns how long to wait before the next. Whatever it comes to is of no
// consequence to anybody: what is left behind is swept the next time, two that sweep
// at once do no harm, and a lease of which nothing was heard ends by itself.
func (c *Client) trySweep(ctx context.Context) (next time.Duration) {
	q := driver.AcquireRequest{
		Resource: SweepResource, HoldID: driver.NewHoldID(), Mode: Exclusive, TTL: sweepLease,
		Details: driver.Details{Owner: c.opts.Owner, Host: c.opts.Host, Comment: "kept from one sweep to the next"},
	}
	q.LockID = q.HoldID.String()
	g, err := c.store.Acquire(ctx, q)
	if err != nil {
		c.log(ctx, slog.LevelDebug, "holdfast: not swept", "reason", err)
		return sweepEvery
	}
	var all SweepResult
	for {
		r, err := c.store.Sweep(ctx, driver.SweepRequest{Idle: c.opts.Retention, Most: sweepMost})
		all.Holds += r.Holds
		all.Records += r.Records
		if err != nil {
			c.log(ctx, slog.LevelDebug, "holdfast: sweep failed", "error", err)
			return sweepEvery
		}
		if !r.More {
			break
		}
		if ctx.Err() != nil {
			return sweepLease
		}
	}
	c.log(ctx, slog.LevelDebug, "holdfast: swept", "holds", all.Holds, "records", all.Records)
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
	_, _ = c.store.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: sweepEvery}})
	return sweepEvery
}
