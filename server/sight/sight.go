// Package sight looks at a store while somebody watches it: what is held, and who waits. It
// keeps one sight for all who watch, changes nothing in the store, and knows no rights.
package sight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	// MaxRows is how many holds a sight has at most, and how many waiters.
	MaxRows = 100_000
	// minPause is the shortest pause between two looks, and restRatio how many times as long
	// as a look the pause after it is at least.
	minPause  = time.Second
	restRatio = 10
	// patience is how long a look may take.
	patience = 30 * time.Second
	// maxPause is the longest pause: that after a look of all its time. A look takes longer
	// only if the store does not end it, or the machine slept; what is held must not be out of
	// sight for longer because of that.
	maxPause = restRatio * patience
)

// Sight is what a look at the store has shown. It is not changed.
type Sight struct {
	// Number is larger than that of each sight before it.
	Number uint64
	// Holds are those that block, by resource and token; Waiters are those of each resource
	// in their order.
	Holds   []driver.Status
	Waiters []driver.Place
	// Queue: the store keeps queues. Where it keeps none, nobody knows who waits.
	Queue bool
	// Cut: there is more in the store.
	Cut bool
	// At is when the look began which has shown all that, and Took how long it took. At is
	// zero if none has succeeded yet.
	At   time.Time
	Took time.Duration
	// Pause is how long the store rests until the next look, and Next when that may begin: it
	// does if somebody watches then.
	Pause time.Duration
	Next  time.Time
	// Err is why the last look has failed, if it has, and Failing when the first of the looks
	// began that failed since. The rest is then of the last look that succeeded.
	Err     error
	Failing time.Time
}

// Stuck returns the number of resources for which somebody waits though a holder is gone.
func (s *Sight) Stuck() (n int) {
	gone := map[string]bool{}
	for _, h := range s.Holds {
		if words.Gone(h) {
			gone[h.Resource] = true
		}
	}
	for _, p := range s.Waiters {
		if gone[p.Resource] {
			n++
			delete(gone, p.Resource) // it counts once
		}
	}
	return n
}

// LogValue implements slog.LogValuer. It has the sight without hold IDs.
func (s Sight) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", s)) }

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Skip chooses resources that nobody is to see.
	Skip func(resource string) bool
	// StoreCall is told of each call of the store, as server.Observer is. Op is list or waiters.
	StoreCall func(ctx context.Context, op string, took time.Duration, err error)
	// Answered returns when the store has last answered a call of anybody. With it, a Looker
	// whose look has failed in a time when the store answered nobody looks again once it does.
	// It is asked every second then.
	Answered func() time.Time
	// Logger gets why looks fail, once until one succeeds. Default: it is not logged.
	Logger *slog.Logger
}

// Looker looks at a store. Its methods may be called concurrently.
type Looker struct {
	store driver.Store
	opts  Options
	life  context.Context
	end   context.CancelFunc
	work  sync.WaitGroup

	mu     sync.Mutex
	last   *Sight
	silent time.Time     // when a look had failed during which the store answered nobody; else zero
	coming chan struct{} // closed when the next sight is there; nil: nobody waits for one
}

// New returns a Looker at the store, which stays the caller's to close, after the Looker.
func New(store driver.Store, opts *Options) *Looker {
	l := &Looker{store: store, last: new(Sight)}
	if opts != nil {
		l.opts = *opts
	}
	l.opts.Logger = cmp.Or(l.opts.Logger, slog.New(slog.DiscardHandler))
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends a look that is under way.
func (l *Looker) Close() {
	l.mu.Lock() // no look begins after it
	l.end()
	l.mu.Unlock()
	l.work.Wait()
}

// Last returns the last sight, whether the store has rested or not.
func (l *Looker) Last() *Sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Now returns the last sight if the store is to rest still, and else a new one.
func (l *Looker) Now(ctx context.Context) (*Sight, error) {
	l.mu.Lock()
	s, fresh := l.last, l.left() > 0
	l.mu.Unlock()
	if fresh {
		return s, nil
	}
	return l.After(ctx, s.Number)
}

// After returns the first sight after the one with the number. While somebody waits for
// one, the store is looked at, with pauses. The error is that of ctx, or ErrClosed.
func (l *Looker) After(ctx context.Context, number uint64) (*Sight, error) {
	for {
		l.mu.Lock()
		s := l.last
		if s.Number > number {
			l.mu.Unlock()
			return s, nil
		}
		if l.life.Err() != nil {
			l.mu.Unlock()
			return nil, ErrClosed
		}
		if l.coming == nil {
			l.coming = make(chan struct{})
			l.work.Go(l.look)
		}
		coming := l.coming
		l.mu.Unlock()
		select {
		case <-coming:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ErrClosed says that the Looker was closed.
var ErrClosed = errors.New("holdfast server: no more looks at the store")

// left returns for how long the store is to rest still. To a store that was silent it makes no
// difference, but one that is slow must not be kept busy by looks that fail: it answers others.
func (l *Looker) left() time.Duration {
	left := time.Until(l.last.Next)
	if l.silent.IsZero() {
		return left
	}
	if l.opts.Answered().After(l.silent) {
		return 0
	}
	return min(left, minPause) // and is asked again
}

// rest waits until the store has rested.
func (l *Looker) rest() {
	for {
		l.mu.Lock()
		left := l.left()
		l.mu.Unlock()
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-l.life.Done():
			timer.Stop()
			return
		}
	}
}

// look makes the next sight, after a rest.
func (l *Looker) look() {
	l.rest()
	began := time.Now()
	s, err := l.see(l.life, driver.Filter{})
	if l.keep(s, began, time.Since(began), err) && l.life.Err() == nil {
		l.opts.Logger.Warn("looks at the store fail", "error", err)
	}
}

// keep keeps what a look has shown, and reports whether it is the first that failed.
func (l *Looker) keep(s *Sight, began time.Time, took time.Duration, err error) (fails bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = time.Time{}
	if err != nil {
		if l.opts.Answered != nil && l.opts.Answered().Before(began) {
			l.silent = time.Now()
		}
		failed := *l.last
		if fails = failed.Err == nil; fails {
			failed.Failing = began
		}
		failed.Err, s = err, &failed
	} else {
		s.Took = took
	}
	s.Number = l.last.Number + 1
	// A look that has failed was as much work, unless it took no time.
	s.Pause = min(max(minPause, restRatio*took), maxPause)
	s.Next = time.Now().Add(s.Pause)
	l.last = s
	close(l.coming)
	l.coming = nil
	return fails
}

// Resource looks at one resource now, without a rest. The sight is not kept: it has no Number.
// The error is that of the store, of ctx, or ErrClosed.
func (l *Looker) Resource(ctx context.Context, name string) (*Sight, error) {
	l.mu.Lock()
	if l.life.Err() != nil {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.work.Add(1)
	l.mu.Unlock()
	defer l.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	return l.see(ctx, driver.Filter{Resource: name})
}

// see looks at what the filter chooses.
func (l *Looker) see(ctx context.Context, f driver.Filter) (s *Sight, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the store has panicked: %v", p)
		}
	}()
	s = &Sight{Queue: l.store.Traits().Queue, At: time.Now()}
	s.Holds, s.Cut, err = list(ctx, l, "list", l.store.List(ctx, f), func(h driver.Status) string { return h.Resource })
	if err != nil {
		return nil, err
	}
	if s.Queue {
		var cut bool
		s.Waiters, cut, err = list(ctx, l, "waiters", driver.Waiters(ctx, l.store, f), func(p driver.Place) string { return p.Resource })
		if err != nil {
			return nil, err
		}
		s.Cut = s.Cut || cut
	}
	slices.SortStableFunc(s.Holds, func(a, b driver.Status) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Token, b.Token))
	})
	slices.SortStableFunc(s.Waiters, func(a, b driver.Place) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Position, b.Position))
	})
	return s, nil
}

// list returns what a call of the store yields, cut at MaxRows.
func list[T any](ctx context.Context, l *Looker, op string, entries iter.Seq2[T, error], name func(T) string) (all []T, cut bool, err error) {
	began := time.Now()
	defer func() {
		if l.opts.StoreCall != nil && l.life.Err() == nil {
			l.opts.StoreCall(ctx, op, time.Since(began), err)
		}
	}()
	for entry, err := range entries {
		switch {
		case err != nil:
			return nil, false, err
		case l.opts.Skip != nil && l.opts.Skip(name(entry)):
			continue
		case len(all) == MaxRows:
			return all, true, nil
		}
		all = append(all, entry)
	}
	return all, false, ctx.Err() // a store may end a list with its ctx
}
