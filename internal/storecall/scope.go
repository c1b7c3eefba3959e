package storecall

import (
	"context"
	"sync/atomic"
	"time"
)

// Scope covers everything that one Client or one server does with its store. It counts the
// running operations, so that Close can wait for them.
type Scope struct {
	// Life ends calls that are not detached. End ends Life.
	Life context.Context
	End  context.CancelFunc
	// Clock is the clock of deadlines. It counts the time that the machine sleeps.
	Clock func() time.Duration
	// Idle is closed when, after Close, no operation runs any more.
	Idle chan struct{}

	began time.Time
	state atomic.Int64 // the number of running operations, and shut
}

// shut is set in Scope.state after Close was called.
const shut = 1 << 62

// NewScope returns a Scope with the given clock.
func NewScope(clock func() time.Duration) *Scope {
	s := &Scope{Clock: clock, Idle: make(chan struct{}), began: time.Now()}
	s.Life, s.End = context.WithCancel(context.Background())
	return s
}

// Elapsed returns the time since NewScope, without the time that the machine sleeps. It is
// cheaper than time.Now, which reads two clocks.
func (s *Scope) Elapsed() time.Duration { return time.Since(s.began) }

// Enter begins an operation, and reports false after Close. Leave ends the operation.
func (s *Scope) Enter() bool { return s.change(0, 1) }

// Leave ends an operation that Enter or Close began.
func (s *Scope) Leave() {
	if s.state.Add(-1) == shut {
		close(s.Idle)
	}
}

// Close prevents new operations and begins one itself. It reports false if it was called
// before.
func (s *Scope) Close() bool { return s.change(0, 1|shut) }

// Go runs f in a goroutine as an operation. After Close, if no operation runs any more, it
// reports false instead.
func (s *Scope) Go(f func()) bool {
	if !s.change(shut, 1) {
		return false
	}
	go func() {
		defer s.Leave()
		f()
	}()
	return true
}

// change adds to the state and reports whether it has. After Close it does not, unless allowed
// is shut and an operation is running.
func (s *Scope) change(allowed, add int64) bool {
	for {
		n := s.state.Load()
		if n&shut&^allowed != 0 || n == shut {
			return false
		}
		if s.state.CompareAndSwap(n, n+add) {
			return true
		}
	}
}
