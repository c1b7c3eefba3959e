package base

import (
	"context"
	"slices"
	"sync"
)

// Line lets one caller in at a time: urgent callers first, and otherwise in the order of
// arrival. Its zero value is ready. Backends use it where only one caller at a time can be
// served, as on a connection that writes.
type Line struct {
	mu     sync.Mutex
	inside bool
	queues [2][]chan struct{} // of urgent callers, and of the others
}

// Enter waits until it is the caller's turn, or ctx ends. If it returns nil, the caller
// must call Leave.
func (l *Line) Enter(ctx context.Context, urgent bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if !l.inside {
		l.inside = true
		l.mu.Unlock()
		return nil
	}
	q := &l.queues[1]
	if urgent {
		q = &l.queues[0]
	}
	turn := make(chan struct{})
	*q = append(*q, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(*q, turn)
	if i >= 0 {
		*q = slices.Delete(*q, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 {
		l.Leave() // it had just become the caller's turn
	}
	return ctx.Err()
}

// Leave lets the next caller in.
func (l *Line) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queues {
		if q := l.queues[i]; len(q) > 0 {
			close(q[0])
			q[0] = nil
			l.queues[i] = q[1:]
			return
		}
	}
	l.inside = false
}
