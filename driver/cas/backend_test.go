package cas_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

var errWire = errors.New("wire cut")

// mishap is a fault of one swap.
type mishap int

const (
	nothing mishap = iota
	conflict
	failsBefore
	failsAfter
)

// backend is a Backend in memory, with mishaps and a clock that the test sets.
type backend struct {
	traits  driver.Traits
	mishaps func(resource string) mishap // nil: none
	damaged map[string]bool

	mu      sync.Mutex
	now     model.Time
	loads   int
	trips   int // calls that would be round trips in a remote store
	records map[string]cas.Entry
	version cas.Version
	floor   uint64
	woken   []string
}

func newBackend() *backend {
	return &backend{
		traits: driver.Traits{Name: "test", Shared: true}, now: 1_900_000_000_000_000,
		records: make(map[string]cas.Entry), damaged: make(map[string]bool),
	}
}

func (b *backend) load(resource string) (cas.Entry, error) {
	if b.damaged[resource] {
		return cas.Entry{}, fmt.Errorf("%w of %q", driver.ErrDamaged, resource)
	}
	b.loads++
	e, ok := b.records[resource]
	if !ok {
		return cas.Entry{Entry: base.Missing(resource, b.floor, b.now)}, nil
	}
	e.Now = b.now
	return e, nil
}

func (b *backend) Load(_ context.Context, resource string) (cas.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trips++
	return b.load(resource)
}

func (b *backend) Swap(_ context.Context, c cas.Change) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trips++
	return b.swap(c)
}

func (b *backend) swap(c cas.Change) (bool, error) {
	what := nothing
	if b.mishaps != nil {
		what = b.mishaps(c.New.Resource)
	}
	switch {
	case what == failsBefore:
		return false, errWire
	case what == conflict, b.records[c.New.Resource].Version != c.Old:
		return false, nil
	case c.Create && !c.Above(b.floor):
		return false, nil
	case c.Delete:
		b.floor = max(b.floor, c.New.Floor())
		delete(b.records, c.New.Resource)
	default:
		b.version++
		b.records[c.New.Resource] = cas.Entry{Entry: base.Entry{Record: c.New}, Version: b.version}
	}
	if c.Wake {
		b.woken = append(b.woken, c.New.Resource)
	}
	if what == failsAfter {
		return false, errWire
	}
	return true, nil
}

func (b *backend) Scan(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	return func(yield func(cas.Entry, error) bool) {
		b.mu.Lock()
		names := slices.Sorted(maps.Keys(b.records))
		b.mu.Unlock()
		for _, name := range names {
			if q.Resource != "" && q.Resource != name {
				continue
			}
			e, err := b.Load(ctx, name)
			if err == nil && (e.Missing || len(e.Record.Holds) == 0 && !q.Idle) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (b *backend) Traits() driver.Traits { return b.traits }
func (b *backend) Close() error          { return nil }
