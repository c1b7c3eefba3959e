package worker

import (
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/campaign/history"
)

// beliefs notes until when holders go by their locks.
type beliefs struct {
	journal *history.Journal
	mu      sync.Mutex
	open    map[driver.HoldID]func() // ends the last one of a hold
}

func (b *beliefs) trace() *holdfast.Trace {
	return &holdfast.Trace{
		Renewed: func(h *holdfast.Hold, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if _, goes := b.open[h.ID()]; goes && err == nil {
				b.note(h)
			}
		},
		Lost: func(h *holdfast.Hold, _ error) { b.end(h) },
	}
}

// begin notes that the holder goes by its lock from now on.
func (b *beliefs) begin(h *holdfast.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(h)
}

// note notes for how long the holder does, as it knows by now.
func (b *beliefs) note(h *holdfast.Hold) {
	e := history.Event{
		Kind: history.Believe, Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID().String(), Token: h.Token(),
		Shared: h.Mode() == holdfast.Shared,
	}
	// Whoever stands still between the two lines believes for less.
	e.Until = history.Now()
	e.Until += h.Left()
	answer, last := b.journal.Call(e), b.open[h.ID()]
	b.open[h.ID()] = func() {
		e.Outcome = history.Done
		answer(e)
	}
	if last != nil {
		last()
	}
}

// end notes that it does so no longer.
func (b *beliefs) end(h *holdfast.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.open[h.ID()]; last != nil {
		last()
		delete(b.open, h.ID())
	}
}
