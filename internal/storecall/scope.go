package storecall

import (
	"context"
	"sync/atomic"
	"time"
)

// Scope is what all that one Client, or one server, does with its store has in common: it
// counts what is under way, so that Close can wait for it.
type Scope struct {
	// Life ends the calls that are not detached. End ends it.
	Life context.Context
	End  context.CancelFunc
	// Clock is that of deadlines. It counts the time that the machine sleeps.
	Clock func() time.Duration
	// Idle closes when nothing is under way any more after Close.
	Idle chan struct{}

	began time.Time
	state atomic.Int64 // how many are under way, and shut
}

// shut is set in Scope.state once Close was called.
const shut = 1 << 62

// NewScope returns a Scope with that clock.
func NewScope(clock func() time.Duration) *Scope {
	s := &Scope{Clock: clock, Idle: make(chan struct{}), began: time.Now()}
	s.Life, s.End = context.WithCancel(context.Background())
	return s
}

// Elapsed returns the time since NewScope. It leaves out the time that the machine sleeps, and
// is cheaper than time.Now, which reads two clocks.
func (s *Scope) Elapsed() time.Duration { return time.Since(s.began) }

// Enter begins an operation, unless Close was called. Leave ends it.
func (s *Scope) Enter() bool { return s.change(0, 1) }

// Leave ends what Enter or Close began.
func (s *Scope) Leave() {
	if s.state.Add(-1) == shut {
		close(s.Idle)
	}
}

// Close lets no operation begin any more, and begins one itself. It reports false if that was
// done.
func (s *Scope) Close() bool { return s.change(0, 1|shut) }

// Go runs f in a goroutine as a part of what is under way. After Close, if nothing is under
// way any more, it reports false instead.
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

// change adds to the state unless Close was called. If that is allowed, something has to be
// under way.
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
