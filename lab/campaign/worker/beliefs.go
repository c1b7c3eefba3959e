package worker

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// beliefs records until when holders rely on their locks, according to their holds and
// contexts, which know of a loss before a Logger or a Trace gets it.
type beliefs struct {
	journal *history.Journal
	look    time.Duration // interval of checks for a later end
	mu      sync.Mutex
	open    map[driver.HoldID]*belief
}

// belief is the last record of a hold.
type belief struct {
	until time.Duration
	end   func()
	stop  func() // ends the checks
}

// begin records that the holder relies on its lock from now on, until end or until the hold's
// context ends.
func (b *beliefs) begin(h *holdfast.Hold) {
	ctx, stop := context.WithCancel(h.Context())
	b.mu.Lock()
	b.open[h.ID()] = &belief{end: func() {}, stop: stop}
	b.note(h)
	b.mu.Unlock()
	go func() {
		ticker := time.NewTicker(b.look)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.mu.Lock()
				b.note(h)
				b.mu.Unlock()
			case <-ctx.Done():
				b.end(h)
				return
			}
		}
	}()
}

// note records the hold's end if it is later than the recorded one.
func (b *beliefs) note(h *holdfast.Hold) {
	last := b.open[h.ID()]
	if last == nil {
		return
	}
	e := history.Event{
		Kind: history.Believe, Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID().String(), Token: h.Token(),
		Shared: h.Mode() == holdfast.Shared,
	}
	// If the process is stopped between the next two lines, the recorded end is too early,
	// which is safe.
	e.Until = history.Now()
	e.Until += h.Left()
	if e.Until <= last.until+b.look {
		return
	}
	answer, before := b.journal.Call(e), last.end
	last.until, last.end = e.Until, func() {
		e.Outcome = history.Done
		answer(e)
	}
	before()
}

// end records that the holder no longer relies on its lock.
func (b *beliefs) end(h *holdfast.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.open[h.ID()]; last != nil {
		last.end()
		last.stop()
		delete(b.open, h.ID())
	}
}
