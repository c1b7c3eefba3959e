package history

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// maxReaders is how many reads there are at a time. Those that hang keep their places.
	maxReaders = 4
	// readPatience is how long a read may take.
	readPatience = 5 * time.Second
)

// Events returns the newest events that the query chooses, the newest first.
func (l *Log) Events(ctx context.Context, q Query) ([]Event, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	return read(ctx, l, func(ctx context.Context) ([]Event, error) { return l.storage.Events(ctx, q) })
}

// Losses returns the newest events since then that are losses, of all resources, the newest
// first: holds that ended without having been released, and those released by force. There are
// at most limit of them; 0 is DefaultLimit.
func (l *Log) Losses(ctx context.Context, since time.Time, limit int) ([]Event, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return read(ctx, l, func(ctx context.Context) ([]Event, error) { return l.storage.Losses(ctx, since, limit) })
}

// Usual returns how long the resource is usually held.
func (l *Log) Usual(ctx context.Context, resource string) (Usual, error) {
	lengths, err := read(ctx, l, func(ctx context.Context) ([]time.Duration, error) {
		return l.storage.Lengths(ctx, resource, MaxUsual)
	})
	u := Usual{Count: len(lengths), Median: driver.Unknown, P95: driver.Unknown}
	if n := len(lengths); n > 0 {
		slices.Sort(lengths)
		u.Median, u.P95 = lengths[(n-1)/2], lengths[(n*95+99)/100-1]
	}
	return u, err
}

// read calls f, and leaves it alone if it does not return in time: a disk may hang.
func read[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, ErrSlow)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	if l.closed() {
		return none, ErrClosed
	}
	select {
	case l.readers <- struct{}{}:
	case <-ctx.Done():
		return none, l.whyNot(ctx)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-l.readers }()
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return none, l.whyNot(ctx)
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, l.whyNot(ctx)
	}
}

// whyNot returns why a read whose ctx is over has ended.
func (l *Log) whyNot(ctx context.Context) error {
	if l.life.Err() != nil {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// waitForReaders waits until nobody reads any more, or until the time is over.
func (l *Log) waitForReaders(over <-chan time.Time) {
	for range maxReaders {
		select {
		case l.readers <- struct{}{}:
		case <-over:
			return
		}
	}
}
