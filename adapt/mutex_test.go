package adapt_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
)

var _ sync.Locker = (*adapt.Mutex)(nil)

// panicked calls f and returns the error that it panics with.
func panicked(t *testing.T, f func()) (err error) {
	t.Helper()
	defer func() {
		t.Helper()
		var ok bool
		if err, ok = recover().(error); !ok {
			t.Error("the panic value is not an error")
		}
	}()
	f()
	return nil
}

func TestMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		a, b := adapt.NewMutex(t.Context(), mine, "m", nil), adapt.NewMutex(t.Context(), others, "m", nil)
		is(t, panicked(t, a.Unlock), adapt.ErrNotHeld)
		var all sync.WaitGroup
		var inside sync.Mutex
		for _, m := range []*adapt.Mutex{a, b, a, b} {
			all.Go(func() {
				for range 10 {
					m.Lock()
					if !inside.TryLock() {
						t.Error("two callers hold the lock")
					}
					if m.Hold().Token() == 0 {
						t.Error("the hold has no token")
					}
					time.Sleep(time.Minute)
					inside.Unlock()
					m.Unlock()
				}
			})
		}
		all.Wait()
		if a.Hold() != nil {
			t.Error("Hold returned a hold of an unlocked Mutex")
		}
	})
}

func TestMutexIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		m := adapt.NewMutex(t.Context(), mine, "m", nil)
		m.Lock()
		ctx := m.Hold().Context()
		seize(t, others, "m")
		lost(t, ctx)
		next := make(chan struct{})
		go func() { // in this process it waits for the goroutine that lost the lock
			m.Lock()
			close(next)
		}()
		time.Sleep(time.Minute)
		if !free(t, others, "m") {
			t.Error("the next caller has the lock before the caller that lost it called Unlock")
		}
		is(t, panicked(t, m.Unlock), holdfast.ErrForced)
		<-next
		if free(t, others, "m") {
			t.Error("Unlock of the lost lock released the next one")
		}
		m.Unlock()
	})
}

func TestMutexReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		losses := make(chan error, 1)
		m := adapt.NewMutex(t.Context(), mine, "m", &adapt.MutexOptions{OnLoss: func(err error) { losses <- err }})
		for range 2 {
			m.Lock()
			synctest.Wait()
			m.Unlock()
		}
		m.Lock()
		seize(t, others, "m")
		is(t, <-losses, holdfast.ErrForced)
		m.Unlock()
		synctest.Wait()
		if len(losses) != 0 {
			t.Error("a loss was reported twice")
		}
	})
}

func TestMutexWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _, cut := unreachable(t)
		m := adapt.NewMutex(t.Context(), mine, "m", nil)
		cut(true)
		time.AfterFunc(time.Hour, func() { cut(false) })
		m.Lock()
		cut(true)
		m.Unlock() // it expires
		cut(false)
	})
}

func TestMutexCannotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		is(t, panicked(t, adapt.NewMutex(t.Context(), mine, "", nil).Lock), holdfast.ErrInvalid)
		h, err := others.Lock(t.Context(), "m", nil)
		is(t, err, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is(t, panicked(t, adapt.NewMutex(ctx, mine, "m", nil).Lock), context.DeadlineExceeded)
		is(t, h.Unlock(t.Context()), nil)

		m := adapt.NewMutex(t.Context(), mine, "m", nil)
		m.Lock()
		is(t, mine.Close(), nil)
		is(t, panicked(t, m.Unlock), holdfast.ErrClosed)
		is(t, panicked(t, m.Lock), holdfast.ErrClosed)
	})
}

// Code that waits with a sync.Cond releases the lock while it waits.
func TestMutexOfACond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		cond := sync.NewCond(adapt.NewMutex(t.Context(), mine, "m", nil))
		done := make(chan struct{})
		go func() {
			cond.L.Lock()
			cond.Wait()
			cond.L.Unlock()
			close(done)
		}()
		synctest.Wait()
		if !free(t, others, "m") {
			t.Error("the Mutex is locked during Cond.Wait")
		}
		cond.Signal()
		<-done
	})
}
