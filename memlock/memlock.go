// Package memlock keeps locks in the memory of one process: for tests, and for programs
// whose goroutines share locks as machines otherwise do.
//
// Importing it registers the URL scheme "memory". Each Open of "memory:" makes a new,
// empty store.
package memlock

import (
	"context"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

func init() {
	driver.Register("memory", func(context.Context, *url.URL) (driver.Store, error) {
		return New(nil), nil
	})
}

// Options are the optional settings of New. The zero value has the defaults.
type Options struct {
	// Now is the store's clock. If it goes back, holds last longer; tokens still rise.
	// Default: the time when the process started plus the monotonic time since, so that
	// setting the machine's clock has no effect.
	Now func() time.Time
}

// Store is a driver.Store in memory. It may be used by several clients at once.
type Store struct {
	*base.Store
}

// New returns an empty store.
func New(opts *Options) *Store { return &Store{Store: base.New(newBackend(opts))} }

func newBackend(opts *Options) *backend {
	b := &backend{records: make(map[string]*entry), held: newRing(), idle: newRing()}
	if opts != nil && opts.Now != nil {
		b.now = func() model.Time { return model.TimeOf(opts.Now()) }
	} else {
		start := time.Now()
		began := model.TimeOf(start)
		b.now = func() model.Time { return began + model.Time(time.Since(start)/time.Microsecond) }
	}
	return b
}

// Traits returns the traits of every store in memory.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "memory", Reach: driver.Process, ServerClock: true, Notifies: true, Queue: true,
		Shared: true, Sweeps: true, Fencing: driver.FencingStrict,
	}
}

// backend implements base.Backend and driver.Watcher. Its mutex is held only while a few
// records change, so callers wait for it without a ctx and renewals need no priority.
type backend struct {
	now func() model.Time
	hub wake.Hub

	mu      sync.Mutex
	records map[string]*entry
	held    *entry // the ring of records with holds or waiters
	idle    *entry // the ring of the other records, the longest idle first
	floor   uint64 // the highest floor of the deleted records
}

// Update implements base.Backend.
func (b *backend) Update(ctx context.Context, us []base.Update, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range us {
		e := b.records[u.Resource]
		c := u.Decide(b.entry(u.Resource, e))
		switch c.Action {
		case base.Put:
			b.put(u.Resource, e, c.Record)
		case base.Delete:
			b.delete(u.Resource, e)
		}
		if c.Wake {
			b.hub.Signal(u.Resource)
		}
	}
	return nil
}

func (b *backend) entry(resource string, e *entry) base.Entry {
	if e == nil {
		return base.Missing(resource, b.floor, b.now())
	}
	return base.Entry{Record: e.record, Now: b.now()}
}

func (b *backend) put(resource string, e *entry, r model.Record) {
	if e == nil {
		e = new(entry)
		b.records[resource] = e
	} else {
		e.unlink()
	}
	e.record = r
	if inUse(r) {
		b.held.append(e)
	} else {
		b.idle.append(e)
	}
}

func inUse(r model.Record) bool { return len(r.Holds)+len(r.Places) > 0 }

func (b *backend) delete(resource string, e *entry) {
	if e == nil {
		return
	}
	b.floor = max(b.floor, e.record.Floor())
	e.unlink()
	delete(b.records, resource)
}

// Scan implements base.Backend. It lists the names when it begins, so that it holds
// no lock while the caller looks at a record.
func (b *backend) Scan(ctx context.Context, resource string) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		names := []string{resource}
		if resource == "" {
			names = b.heldNames()
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				yield(base.Entry{}, err)
				return
			}
			b.mu.Lock()
			e := b.entry(name, b.records[name])
			b.mu.Unlock()
			if inUse(e.Record) && !yield(e, nil) {
				return
			}
		}
	}
}

// Due implements base.Backend. It visits all records with holds or waiters, and the idle
// ones up to the first that is not due.
func (b *backend) Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range b.due(idle) {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (b *backend) heldNames() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.held.next; e != b.held; e = e.next {
		names = append(names, e.record.Resource)
	}
	return names
}

func (b *backend) due(idle time.Duration) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for e := b.held.next; e != b.held; e = e.next {
		if model.Due(e.record, now, idle) {
			names = append(names, e.record.Resource)
		}
	}
	before := now - model.Time(idle/time.Microsecond)
	for e := b.idle.next; e != b.idle && e.record.Touched <= before; e = e.next {
		names = append(names, e.record.Resource)
	}
	return names
}

// Watch implements driver.Watcher.
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
