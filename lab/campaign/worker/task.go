package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/register"
)

// task takes one lock after another.
type task struct {
	Config
	name      string
	journal   *history.Journal
	locks     *holdfast.Client
	registers []register.Named
	beliefs   *beliefs
	rnd       *rand.Rand
	shared    bool // the store has shared holds
	lapses    bool // locks are not released, but left to their TTL
}

// turn takes one lock, and works under it.
func (t *task) turn(ctx context.Context) {
	h := t.lock(ctx)
	if h == nil {
		return
	}
	taken.Add(1)
	t.beliefs.begin(h)
	for i := range 1 + t.rnd.IntN(4) {
		// The holder checks its lock, and then writes, which may take a while.
		if h.Context().Err() != nil || ctx.Err() != nil {
			break
		}
		pause(ctx, time.Duration(t.rnd.Int64N(int64(t.TTL/8))))
		if h.Mode() == holdfast.Exclusive && len(t.registers) > 0 {
			t.write(ctx, h, t.registers[t.rnd.IntN(len(t.registers))], i)
		}
	}
	switch {
	case t.lapses:
		<-h.Context().Done() // no renewals
	case t.Long && t.rnd.IntN(4) == 0:
		pause(h.Context(), time.Duration(t.rnd.Int64N(int64(3*t.TTL))))
	}
	t.beliefs.end(h)
	_ = h.Unlock(ctx) // the journal has the store's answer
}

// lock waits for a lock. It returns nil if it gets none.
func (t *task) lock(ctx context.Context) *holdfast.Hold {
	patience := time.Duration(t.rnd.Int64N(int64(3 * t.TTL)))
	t.lapses = t.rnd.IntN(4) == 0
	o := &holdfast.LockOptions{
		LockID: fmt.Sprintf("%s.%d", t.name, t.rnd.Uint32()), NoKeepAlive: t.lapses, Fair: t.rnd.IntN(4) == 0,
	}
	if t.rnd.IntN(4) == 0 {
		o.TakeoverDelay = t.TTL / 4
	}
	resource, lock := fmt.Sprint("r", t.rnd.IntN(t.Resources)), t.locks.Lock
	shared := t.shared && t.rnd.IntN(4) == 0
	if shared {
		// Usually all tasks use the same limit.
		lock, o.Limit = t.locks.RLock, 2+t.rnd.IntN(8)/7
	}
	e := history.Event{
		Kind: history.Wait, Resource: resource, LockID: o.LockID, Shared: shared, Limit: o.Limit, Until: history.Now() + patience,
	}
	answer := t.journal.Call(e)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := lock(limited, resource, o)
	if err != nil {
		e.Outcome, e.Why = history.Held, err.Error()
		answer(e)
		if errors.Is(err, driver.ErrUnusable) || errors.Is(err, driver.ErrUnsupported) {
			pause(ctx, t.TTL/8)
		}
		return nil
	}
	e.Outcome, e.Token, e.HoldID = history.Done, h.Token(), h.ID().String()
	answer(e)
	return h
}

// write writes the protected data, however long that takes.
func (t *task) write(ctx context.Context, h *holdfast.Hold, to register.Named, n int) {
	e := history.Event{
		Kind: history.Write, Resource: h.Resource(), Register: to.Kind, LockID: h.LockID(), HoldID: h.ID().String(), Token: h.Token(),
	}
	answer := t.journal.Call(e)
	limited, cancel := context.WithTimeout(ctx, t.TTL)
	defer cancel()
	err := to.Write(limited, h.Resource(), h.Token(), fmt.Sprintf("%s %d", h.LockID(), n), !t.Unfenced)
	switch {
	case err == nil:
		e.Outcome = history.Done
	case errors.Is(err, register.ErrStale):
		e.Outcome = history.Lost
	default:
		e.Outcome, e.Why = history.Unknown, err.Error()
	}
	answer(e)
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
