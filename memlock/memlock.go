// Package memlock keeps locks in the memory of one process: for tests, and for
// programs that want the same locks among their goroutines as among machines.
//
// Importing it registers the URL scheme "memory": each Open of "memory:" is a
// store of its own.
package memlock

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

func init() {
	driver.Register("memory", func(context.Context, *url.URL) (driver.Store, error) {
		return New(nil), nil
	})
}

// Options change what New makes. The zero value is the default.
type Options struct {
	// Now is the store's clock. It must not go back. Default: the time of the
	// process's start and the monotonic clock since, which no change of the
	// machine's clock moves.
	Now func() time.Time
}

// Store is a driver.Store in memory. It may be used by several clients at once.
type Store struct {
	*cas.Store
}

// New returns an empty store.
func New(opts *Options) *Store { return &Store{Store: cas.New(newBackend(opts))} }

func newBackend(opts *Options) *backend {
	b := &backend{records: make(map[string]*entry)}
	if opts != nil && opts.Now != nil {
		b.now = func() model.Time { return model.TimeOf(opts.Now()) }
	} else {
		start := time.Now()
		b.now = func() model.Time { return model.TimeOf(start) + model.Time(time.Since(start)/time.Microsecond) }
	}
	return b
}

// Traits of every store in memory.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "memory", Reach: driver.Process, ServerClock: true, Notifies: true, Waiters: true,
		Shared: true, Fencing: driver.FencingStrict,
	}
}

type entry struct {
	record  model.Record
	version cas.Version
}

// backend implements cas.Backend, cas.Batcher and driver.Watcher.
type backend struct {
	now func() model.Time
	hub wake.Hub

	mu      sync.Mutex
	records map[string]*entry
	version cas.Version // the last one given, to any record: none comes twice
	floor   model.Time  // the last change of any record that was deleted
}

func (b *backend) Load(ctx context.Context, resource string) (cas.Entry, error) {
	if err := ctx.Err(); err != nil {
		return cas.Entry{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load(resource), nil
}

func (b *backend) load(resource string) cas.Entry {
	now := b.now()
	if e := b.records[resource]; e != nil {
		return cas.Entry{Record: e.record, Version: e.version, Now: now}
	}
	return cas.Entry{Record: model.Record{Resource: resource}, Now: now}
}

func (b *backend) Swap(ctx context.Context, c cas.Change) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.mu.Lock()
	done := b.swap(c)
	b.mu.Unlock()
	if done && c.Wake {
		b.hub.Signal(c.New.Resource)
	}
	return done, nil
}

func (b *backend) swap(c cas.Change) bool {
	e := b.records[c.New.Resource]
	switch {
	case e == nil:
		if c.Old != 0 || c.New.Touched < b.floor {
			// Gone; or another record may have come and gone since this one was
			// found missing, with higher tokens.
			return false
		}
		if c.Delete {
			return true
		}
		e = new(entry)
		b.records[c.New.Resource] = e
	case e.version != c.Old:
		return false
	case c.Delete:
		b.floor = max(b.floor, e.record.Touched)
		delete(b.records, c.New.Resource)
		return true
	}
	b.version++
	e.record, e.version = c.New, b.version
	return true
}

func (b *backend) LoadAll(ctx context.Context, resources []string) ([]cas.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := make([]cas.Entry, len(resources))
	for i, r := range resources {
		entries[i] = b.load(r)
	}
	return entries, nil
}

func (b *backend) SwapAll(ctx context.Context, cs []cas.Change) ([]bool, error) {
	done := make([]bool, len(cs))
	for i, c := range cs {
		var err error
		if done[i], err = b.Swap(ctx, c); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// Scan goes by the names that are there as it begins, so that it holds no lock
// while the caller looks at a record.
func (b *backend) Scan(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	return func(yield func(cas.Entry, error) bool) {
		for _, name := range b.names(q) {
			e, err := b.Load(ctx, name)
			if err != nil {
				yield(cas.Entry{}, err)
				return
			}
			if len(e.Record.Holds) == 0 && !q.Idle || e.Version == 0 {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (b *backend) names(q cas.Query) []string {
	if q.Resource != "" {
		return []string{q.Resource}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.records))
}

func (b *backend) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return b.hub.Subscribe(ctx, resource), nil
}

func (b *backend) Traits() driver.Traits { return Traits() }

func (b *backend) Close() error {
	b.hub.Close()
	return nil
}
