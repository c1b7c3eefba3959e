package holdfast

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// A Client sweeps at a random moment of the hour after its first grant, and then at most
// once an hour. So among many short-lived programs one sweeps now and then, and a program
// that takes no lock never sweeps.
const (
	sweepEvery = time.Hour
	// sweepLease is the TTL of driver.SweepResource during a sweep: a killed Client blocks
	// the sweeps of others for at most as long.
	sweepLease = time.Minute
	// sweepTime limits a sweep, and sweepMost the records of one call.
	sweepTime = 10 * time.Second
	sweepMost = 1000
)

// Sweep drops all expired holds and deletes the records of the resources that have been idle
// for Options.Retention. Clients also sweep in the background (Options.NoSweep). An expired
// hold blocks nobody, swept or not. Any Client may sweep at any time. A sweep takes at most 5
// minutes; the next one continues.
func (a *Admin) Sweep(ctx context.Context) (driver.SweepResult, error) {
	c := a.client
	if err := c.start(ctx); err != nil {
		return driver.SweepResult{}, wrap("sweep", "", err)
	}
	defer c.scope.Leave()
	call := &storecall.Context{Parent: ctx, Scope: c.scope, Timeout: scanTimeout}
	r, err := c.store.Sweep(call, driver.SweepRequest{Idle: c.opts.Retention})
	if err = call.End(err); err != nil {
		err = wrap("sweep", "", c.closedOr(err))
	}
	return r, err
}

// startSweeps sets the timer for the first sweep.
func (c *Client) startSweeps() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scope.Life.Err() == nil && !c.opts.NoSweep && c.store.Traits().Sweeps {
		c.sweeper = time.AfterFunc(rand.N(sweepEvery), c.sweepInTurn)
	}
}

// sweepInTurn sweeps if no other Client has within the last hour, and plans the next sweep.
func (c *Client) sweepInTurn() {
	if !c.scope.Enter() {
		return
	}
	defer c.scope.Leave()
	call := &storecall.Context{Parent: context.Background(), Scope: c.scope, Timeout: sweepTime}
	next := c.trySweep(call)
	_ = call.End(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scope.Life.Err() == nil {
		c.sweeper.Reset(next + rand.N(sweepEvery/4))
	}
}

// trySweep sweeps and returns the time to wait before the next sweep. Failures do no harm:
// the next sweep continues, two concurrent sweeps are safe, and a hold of SweepResource whose
// grant got lost expires.
func (c *Client) trySweep(ctx context.Context) (next time.Duration) {
	q := driver.AcquireRequest{
		Resource: driver.SweepResource, HoldID: driver.NewHoldID(), Mode: Exclusive, TTL: sweepLease,
		Details: driver.Details{Owner: c.opts.Owner, Host: c.opts.Host, Comment: "kept from one sweep to the next"},
	}
	q.LockID = driver.NewHoldID().String()
	g, err := c.store.Acquire(ctx, q)
	if err != nil {
		c.log(ctx, slog.LevelDebug, "holdfast: not swept", "reason", err)
		return sweepEvery
	}
	var all driver.SweepResult
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
