package history

import (
	"context"
	"time"
)

const (
	// maxReaders is how many reads there are at a time. Those that hang keep their places.
	maxReaders = 4
	// readPatience is how long a read may take.
	readPatience = 5 * time.Second
)

// Holds returns those that the query chooses, the newest first.
func (l *Log) Holds(ctx context.Context, q Query) ([]Hold, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, ErrSlow)
	defer cancel()
	select {
	case l.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type result struct {
		holds []Hold
		err   error
	}
	done := make(chan result, 1)
	go func() { // a disk may hang
		defer func() { <-l.readers }()
		holds, err := l.storage.Holds(ctx, q)
		done <- result{holds, err}
	}()
	select {
	case r := <-done:
		return r.holds, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
