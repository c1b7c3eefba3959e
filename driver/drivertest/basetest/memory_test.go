package basetest_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

// memory is a backend that a mutant can break in one place.
type memory struct {
	mutant string
	hub    wake.Hub
	frozen model.Time

	mu      sync.Mutex
	records map[string]model.Record
	floor   uint64
}

func newMemory(mutant string) *memory {
	return &memory{mutant: mutant, records: make(map[string]model.Record), frozen: model.TimeOf(time.Now())}
}

func (m *memory) entry(resource string) base.Entry {
	now := model.TimeOf(time.Now())
	r, ok := m.records[resource]
	if !ok {
		if m.mutant == "no floor" {
			return base.Missing(resource, 0, now)
		}
		return base.Missing(resource, m.floor, now)
	}
	if m.mutant == "clock is read only for new records" {
		now = max(m.frozen, r.Touched)
	}
	return base.Entry{Record: r, Now: now}
}

func (m *memory) Update(ctx context.Context, us []base.Update, urgent bool) error {
	if err := ctx.Err(); err != nil && (!urgent || m.mutant != "urgent changes ignore ctx") {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, u := range us {
		e := m.entry(u.Resource)
		if m.mutant == "decides without the lock" {
			m.mu.Unlock()
			time.Sleep(time.Microsecond)
		}
		c := u.Decide(e)
		if m.mutant == "decides without the lock" {
			m.mu.Lock()
		}
		switch {
		case m.mutant == "only the first of a batch" && i > 0:
		case c.Action == base.Put:
			if m.mutant == "put loses places" {
				c.Record.Places = nil
			}
			m.records[u.Resource] = c.Record
		case c.Action == base.Delete:
			switch m.mutant {
			case "floor ignores tokens":
				m.floor = max(m.floor, uint64(c.Record.Touched))
			case "floor ignores Touched":
				m.floor = max(m.floor, c.Record.Token)
			default:
				m.floor = max(m.floor, c.Record.Floor())
			}
			delete(m.records, u.Resource)
		case m.mutant == "reading makes a record":
			m.records[u.Resource] = e.Record
		}
		if c.Wake != (m.mutant == "wakes for changes without Wake") {
			m.hub.Signal(u.Resource)
		}
	}
	return nil
}

func (m *memory) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.Sorted(maps.Keys(m.records))
	if m.mutant == "scan ends after a page" {
		names = names[:min(len(names), 1000)]
	}
	return names
}

func (m *memory) Scan(_ context.Context, resource string) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		for _, name := range m.names() {
			m.mu.Lock()
			e := m.entry(name)
			m.mu.Unlock()
			skip := e.Missing || len(e.Record.Holds) == 0 || resource != "" && resource != name
			if !skip && !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) Due(_ context.Context, idle time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range m.names() {
			m.mu.Lock()
			e := m.entry(name)
			m.mu.Unlock()
			due := model.Due(e.Record, e.Now, idle)
			switch m.mutant {
			case "only records without live holds are due":
				due = due && (len(e.Record.Holds) == 0 || e.Record.Holds[0].End < e.Now)
			case "idle records are never due":
				due = due && len(e.Record.Holds) > 0
			}
			if !e.Missing && due && !yield(name, nil) {
				return
			}
		}
	}
}

func (m *memory) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	return m.hub.Subscribe(ctx, resource), nil
}

func (m *memory) Traits() driver.Traits { return driver.Traits{Name: "memory"} }
func (m *memory) Close() error          { return nil }
