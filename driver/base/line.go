package base

import (
	"context"
	"slices"
	"sync"
)

// Line admits one caller at a time: urgent callers first, and otherwise in the order of
// arrival. The zero value is ready for use. It is for backends that can serve only one caller
// at a time, such as with one connection for writes.
type Line struct {
	mu     sync.Mutex
	inside bool
	queues [2][]chan struct{} // of urgent callers and of others
}

// Enter waits for the caller's turn. If it returns nil, the caller must call Leave. If ctx
// ends first, it returns ctx.Err().
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
		l.Leave() // the turn of the caller had come at that moment
	}
	return ctx.Err()
}

// Leave admits the next caller.
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
