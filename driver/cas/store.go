package cas

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// maxTries bounds how often one call is decided anew because others changed the
// record in between. Each lost race is a change that somebody else made, so this
// many in a row mean that something is wrong rather than busy.
const maxTries = 1000

// chunk is how many records a Sweep changes in one round trip.
const chunk = 500

// Store is a driver.Store on a Backend.
type Store struct {
	backend Backend
	batcher Batcher // nil: one resource at a time
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New makes a store of the backend. If that is also a Batcher, a driver.Watcher
// or a driver.Initializer, the store is so too.
func New(b Backend) *Store {
	batcher, _ := b.(Batcher)
	return &Store{backend: b, batcher: batcher}
}

// Acquire implements driver.Store.
//
// A swap that fails without an answer is returned as unknown, never decided
// anew here: the caller's repeat finds its own hold if the swap was applied.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (g driver.Grant, err error) {
	if q.Mode == driver.Shared && !s.backend.Traits().Shared {
		return driver.Grant{}, fmt.Errorf("shared lock of %q: %w", q.Resource, driver.ErrUnsupported)
	}
	var refused error
	var note Change // that the refusal leaves, if it names a resource
	err = s.change(ctx, q.Resource, func(e Entry) (c Change, changed bool) {
		c.New, g, changed, refused = model.Acquire(e.Record, e.Now, q)
		if changed && refused != nil {
			note = Change{Old: e.Version, New: c.New}
			return c, false
		}
		return c, changed
	})
	if note.New.Resource != "" {
		s.leave(ctx, note)
	}
	if err == nil {
		err = refused
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return g, nil
}

// noteTimeout is for how long a note may keep the refusal from its asker.
const noteTimeout = time.Second

// leave makes a change that is a courtesy. The request is decided: a swap that
// fails, comes too late or gets no answer alters nothing about that, and is not
// made again, for the next refusal will leave the note.
func (s *Store) leave(ctx context.Context, note Change) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	_, _ = s.backend.Swap(ctx, note)
}

// change loads the record, lets decide make the change, and swaps, until no
// other change came in between. decide sees the clock as it is at each try.
func (s *Store) change(ctx context.Context, resource string, decide func(Entry) (c Change, changed bool)) error {
	for range maxTries {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := s.backend.Load(ctx, resource)
		if err != nil {
			return err
		}
		c, changed := decide(e)
		if !changed {
			return nil
		}
		c.Old = e.Version
		if done, err := s.backend.Swap(ctx, c); done || err != nil {
			return err
		}
	}
	return errBusy(resource)
}

func errBusy(resource string) error {
	return fmt.Errorf("record of %q changed %d times in a row before the change could be made", resource, maxTries)
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(driver.Status{}, err)
			return
		}
		for e, err := range s.backend.Scan(ctx, Query{Resource: f.Resource}) {
			if err != nil {
				yield(driver.Status{}, err)
				return
			}
			for _, status := range model.Statuses(e.Record, e.Now, f) {
				if !yield(status, nil) {
					return
				}
			}
		}
	}
}

// Sweep implements driver.Store. A record that changes while it is swept is in
// use and left for the next time.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := ctx.Err(); err != nil {
		return total, err
	}
	var changes []Change
	var drops []int // holds dropped by each
	flush := func() error {
		done, err := s.swapAll(ctx, changes)
		for i, ok := range done {
			switch {
			case !ok:
			case changes[i].Delete:
				total.Records++
			default:
				total.Holds += drops[i]
			}
		}
		changes, drops = changes[:0], drops[:0]
		return err
	}
	for e, err := range s.backend.Scan(ctx, Query{Idle: true}) {
		if err != nil {
			return total, errors.Join(err, flush())
		}
		swept, dropped, remove := model.Sweep(e.Record, e.Now, q.Idle)
		if dropped == 0 && !remove {
			continue
		}
		changes = append(changes, Change{Old: e.Version, New: swept, Delete: remove, Wake: dropped > 0})
		drops = append(drops, dropped)
		if len(changes) == chunk {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// swapAll makes the changes and reports which were made, in one round trip if
// the backend can.
func (s *Store) swapAll(ctx context.Context, cs []Change) (done []bool, err error) {
	if len(cs) == 0 {
		return nil, nil
	}
	if s.batcher != nil && len(cs) > 1 {
		return s.batcher.SwapAll(ctx, cs)
	}
	for _, c := range cs {
		ok, err := s.backend.Swap(ctx, c)
		if err != nil {
			return done, err
		}
		done = append(done, ok)
	}
	return done, nil
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if w, ok := s.backend.(driver.Watcher); ok {
		return w.Watch(ctx, resource)
	}
	return nil, driver.ErrUnsupported
}

// Init implements driver.Initializer.
func (s *Store) Init(ctx context.Context) error {
	if i, ok := s.backend.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}

// Traits implements driver.Store.
func (s *Store) Traits() driver.Traits { return s.backend.Traits() }

// Close implements driver.Store.
func (s *Store) Close() error { return s.backend.Close() }
