package worker

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// beliefs notes until when holders go by their locks: what their holds and contexts
// say, which know before a Logger or a Trace is told.
type beliefs struct {
	journal *history.Journal
	look    time.Duration // between two looks whether a hold lives longer by now
	mu      sync.Mutex
	open    map[driver.HoldID]*belief
}

// belief is the last one of a hold.
type belief struct {
	until time.Duration
	end   func()
	stop  func() // looking
}

// begin notes that the holder goes by its lock from now on, until end or until the
// hold's context ends.
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

// note notes for how long the holder does, if it is longer than it was known to be.
func (b *beliefs) note(h *holdfast.Hold) {
	last := b.open[h.ID()]
	if last == nil {
		return
	}
	e := history.Event{
		Kind: history.Believe, Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID().String(), Token: h.Token(),
		Shared: h.Mode() == holdfast.Shared,
	}
	// A process that is stopped between the two lines believes for less time.
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

// end notes that it does so no longer.
func (b *beliefs) end(h *holdfast.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.open[h.ID()]; last != nil {
		last.end()
		last.stop()
		delete(b.open, h.ID())
	}
}
