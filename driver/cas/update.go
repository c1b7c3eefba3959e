package cas

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Limits for changes that are decided again because another change came first.
const (
	// maxTries limits the attempts of changes that are not urgent. Each lost race is a change
	// by another caller, so this many in a row mean that something is wrong.
	maxTries = 1000
	// maxPause limits the pauses after lost races.
	maxPause = 100 * time.Millisecond
	// eager is how often an urgent change is retried at once.
	eager = 100
	// placeTimeout limits the time for writing the place of a waiter.
	placeTimeout = time.Second
)

// Update makes a base.Backend of a Backend that compares and swaps.
func Update(b Backend) base.Backend {
	return &loop{backend: b, lines: make(map[string]*line)}
}

// loop is a base.Backend. The changes that this process makes to one record wait in a line,
// renewals first, so they do not race each other. They race the changes of other processes.
// After a lost race a change pauses, longer each time. Renewals retry at once, so they
// succeed.
type loop struct {
	backend Backend

	mu    sync.Mutex
	lines map[string]*line // by resource
}

// line is the line of one record.
type line struct {
	base.Line
	users int
}

func (l *loop) enter(ctx context.Context, resource string, urgent bool) (*line, error) {
	l.mu.Lock()
	n := l.lines[resource]
	if n == nil {
		n = new(line)
		l.lines[resource] = n
	}
	n.users++
	l.mu.Unlock()
	if err := n.Enter(ctx, urgent); err != nil {
		l.forget(resource, n)
		return nil, err
	}
	return n, nil
}

func (l *loop) leave(resource string, n *line) {
	n.Leave()
	l.forget(resource, n)
}

func (l *loop) forget(resource string, n *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.lines, resource)
	}
}

// Update implements base.Backend. It tries the records in turns, so a record that others
// change all the time delays no other.
func (l *loop) Update(ctx context.Context, us []base.Update, urgent bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rest := make([]*base.Update, len(us))
	for i := range us {
		rest[i] = &us[i]
	}
	for try := 1; ; try++ {
		start := time.Now()
		overtaken := rest[:0]
		for _, u := range rest {
			var made bool
			if made, u.Err = l.try(ctx, u, urgent); !made && u.Err == nil {
				overtaken = append(overtaken, u)
			}
		}
		if rest = overtaken; len(rest) == 0 {
			return nil
		}
		err := pause(ctx, try, urgent, time.Since(start))
		if err == nil && (urgent || try < maxTries) {
			continue
		}
		for _, u := range rest {
			u.Err = fmt.Errorf("record of %q was changed by other requests %d times in a row before this change could be made", u.Resource, try)
			if err != nil {
				u.Err = fmt.Errorf("%w: %w", u.Err, err)
			}
		}
		return nil
	}
}

// try makes one update unless the record changes in between. A swap that fails without an
// answer is not decided again: it may have been made, and the result of the caller's repeat
// depends on that.
func (l *loop) try(ctx context.Context, u *base.Update, urgent bool) (made bool, err error) {
	n, err := l.enter(ctx, u.Resource, urgent)
	if err != nil {
		return false, err
	}
	defer l.leave(u.Resource, n)
	e, err := l.backend.Load(ctx, u.Resource)
	if err != nil {
		return false, err
	}
	c := u.Decide(e.Entry)
	if c.Action == base.Keep {
		return true, nil
	}
	swap := Change{Old: e.Version, Create: e.Missing, New: c.Record, Delete: c.Action == base.Delete, Wake: c.Wake}
	if c.Courtesy {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, placeTimeout)
		defer cancel()
	}
	return l.backend.Swap(ctx, swap)
}

// pause delays the next attempt after a lost race, in proportion to the time that an attempt
// takes.
func pause(ctx context.Context, try int, urgent bool, took time.Duration) error {
	if urgent && try < eager {
		return ctx.Err()
	}
	most := took
	if !urgent {
		most = took << min(try, 10)
	}
	return backoff.Wait(ctx, rand.N(min(max(most, time.Microsecond), maxPause)))
}

// Scan implements base.Backend.
func (l *loop) Scan(ctx context.Context, resource string) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		for e, err := range l.backend.Scan(ctx, Query{Resource: resource}) {
			if !yield(e.Entry, err) {
				return
			}
		}
	}
}

// Due implements base.Backend. It reads all records, because such stores have no index.
func (l *loop) Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range l.backend.Scan(ctx, Query{Idle: true}) {
			if err == nil && !model.Due(e.Record, e.Now, idle) {
				continue
			}
			if !yield(e.Record.Resource, err) {
				return
			}
		}
	}
}

// Watch implements driver.Watcher.
func (l *loop) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if w, ok := l.backend.(driver.Watcher); ok {
		return w.Watch(ctx, resource)
	}
	return nil, driver.ErrUnsupported
}

// Init implements driver.Initializer.
func (l *loop) Init(ctx context.Context) error {
	if i, ok := l.backend.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}

// Traits implements base.Backend.
func (l *loop) Traits() driver.Traits { return l.backend.Traits() }

// Close implements base.Backend.
func (l *loop) Close() error { return l.backend.Close() }
