package castest_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// memory is a backend that a mutant can break in one place.
type memory struct {
	mutant string

	mu       sync.Mutex
	records  map[string]kept
	versions cas.Version
	floor    uint64
	frozen   model.Time
}

type kept struct {
	record  model.Record
	version cas.Version
}

func newMemory(mutant string) *memory {
	return &memory{mutant: mutant, records: make(map[string]kept), frozen: model.TimeOf(time.Now())}
}

func (m *memory) clock(r kept) model.Time {
	if m.mutant == "clock is read only for new records" && r.version != 0 {
		return max(m.frozen, r.record.Touched)
	}
	return model.TimeOf(time.Now())
}

func (m *memory) Load(ctx context.Context, resource string) (cas.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.records[resource]
	if !ok {
		floor := m.floor
		if m.mutant == "creation after the clock went back" {
			floor = 0
		}
		return cas.Entry{Entry: base.Missing(resource, floor, m.clock(k))}, ctx.Err()
	}
	return cas.Entry{Entry: base.Entry{Record: k.record, Now: m.clock(k)}, Version: k.version}, ctx.Err()
}

func (m *memory) Swap(ctx context.Context, c cas.Change) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.records[c.New.Resource]
	mine := old.version == c.Old
	switch m.mutant {
	case "swap ignores the version":
		mine = true
	case "deletion ignores the version":
		mine = mine || c.Delete
	case "creation overwrites":
		mine = mine || c.Create
	}
	late := c.Create && !c.Above(m.floor) && m.mutant != "creation from before a deletion"
	if !mine || late {
		return false, nil
	}
	if c.Delete {
		floor := c.New.Floor()
		switch m.mutant {
		case "floor is of Touched alone":
			floor = uint64(c.New.Touched)
		case "floor is of tokens alone":
			floor = c.New.Token
		}
		m.floor = max(m.floor, floor)
		delete(m.records, c.New.Resource)
		return true, nil
	}
	m.versions++
	version := m.versions
	switch m.mutant {
	case "version counts from 1 in each record":
		version = old.version + 1
	case "version counts holds":
		version = cas.Version(len(c.New.Holds)) + 1
	case "version is the token":
		version = cas.Version(c.New.Token)
	}
	if m.mutant == "swap loses places" {
		c.New.Places = nil
	}
	m.records[c.New.Resource] = kept{record: c.New, version: version}
	return true, nil
}

func (m *memory) Scan(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	return func(yield func(cas.Entry, error) bool) {
		m.mu.Lock()
		names := slices.Sorted(maps.Keys(m.records))
		m.mu.Unlock()
		if m.mutant == "scan ends after a page" {
			names = names[:min(len(names), 1000)]
		}
		for _, name := range names {
			e, err := m.Load(ctx, name)
			skip := e.Missing || len(e.Record.Holds) == 0 && !q.Idle || q.Resource != "" && q.Resource != name
			if (err != nil || !skip) && !yield(e, err) {
				return
			}
		}
	}
}

func (m *memory) Traits() driver.Traits { return driver.Traits{Name: "memory"} }
func (m *memory) Close() error          { return nil }
