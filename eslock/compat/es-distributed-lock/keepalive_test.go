package lock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestKeepAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		l := b.acquired("me", 16*time.Second)
		first := l.Acquired
		b.must(l.KeepAlive(ctx, 6*time.Second))
		b.must(l.KeepAlive(ctx, 3*time.Second)) // continues as before
		time.Sleep(10*time.Second - 1)
		if n := b.Calls(drivertest.Renew); n != 0 {
			t.Errorf("extended %d times", n)
		}
		for range 100 {
			time.Sleep(time.Second)
			b.is(l, true, false)
			if left := time.Until(l.Expires); left < 5*time.Second || left > 16*time.Second || !l.Acquired.Equal(first) {
				t.Errorf("acquired %v, expires in %v", l.Acquired, left)
			}
			b.refused(b.lock("other").Acquire(ctx, time.Second))
		}
		if n := b.Calls(drivertest.Renew); n != 10 {
			t.Errorf("extended %d times in 110 s", n)
		}
		t.Log("a keep-alive ends with its ctx, and another may follow")
		cancel()
		b.must(l.KeepAlive(t.Context(), time.Second))
		time.Sleep(time.Minute)
		b.is(l, true, false)
		t.Log("a keep-alive ends with Release")
		b.must(l.MustRelease())
		n := b.Calls(drivertest.Renew)
		time.Sleep(time.Minute)
		b.is(l, false, true)
		if b.holder() != "" || b.Calls(drivertest.Renew) != n {
			t.Errorf("held by %q, extended %d times more", b.holder(), b.Calls(drivertest.Renew)-n)
		}
	})
}

// Without a keep-alive, the lock ends.
func TestKeepAliveEndsWithContext(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		l := b.acquired("me", 16*time.Second)
		b.must(l.KeepAlive(ctx, 6*time.Second))
		cancel()
		time.Sleep(15*time.Second - 1)
		b.is(l, true, false)
		time.Sleep(time.Second + 1)
		b.is(l, false, true)
		b.must(b.lock("other").Acquire(t.Context(), time.Second))
	})
}

func TestKeepAliveRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		dead, cancel := context.WithCancel(ctx)
		cancel()
		notAcquired := func(l *Lock) {
			t.Helper()
			if err := l.KeepAlive(ctx, time.Second); err == nil || err.Error() != "acquire lock before keep alive" {
				t.Errorf("error %v", err)
			}
		}
		notAcquired(b.lock("me"))
		notAcquired(new(Lock))
		l := b.acquired("me", 16*time.Second)
		for _, before := range []time.Duration{16 * time.Second, time.Hour, -1} {
			if err := l.KeepAlive(ctx, before); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v before: error %v", before, err)
			}
		}
		if err := l.KeepAlive(dead, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		other := b.lock("other")
		b.refused(other.Acquire(ctx, time.Second))
		notAcquired(other)
		b.must(l.Release())
		notAcquired(l)
		if b.Calls(drivertest.Renew) != 0 {
			t.Error("something was extended")
		}
	})
}

// An expired lock that nobody else has is acquired again. Otherwise the error says why
// not.
func TestKeepAliveOfExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		time.Sleep(time.Minute)
		b.must(l.KeepAlive(t.Context(), 6*time.Second))
		b.is(l, true, false)
		time.Sleep(61 * time.Second)
		b.is(l, true, false)
		b.force("me")
		b.must(b.lock("other").Acquire(t.Context(), time.Hour))
		time.Sleep(10 * time.Second)
		b.is(l, false, true)
		b.refused(l.KeepAlive(t.Context(), 6*time.Second))
		b.is(l, false, true)
	})
}

// When the network fails, the holder learns it before another owner can have the lock,
// and a network that works again does not make it a holder again.
func TestKeepAliveFails(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"requests are lost": {LoseRequest: true},
		"answers hang":      {LoseRequest: true, HoldReply: make(chan struct{})},
		"index read-only":   {LoseRequest: true, Err: driver.ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if fault.HoldReply != nil {
					fault.HoldReply = make(chan struct{}) // made inside the bubble
				}
				l, other := b.acquired("me", 16*time.Second), b.lock("other")
				b.must(l.KeepAlive(t.Context(), 6*time.Second))
				time.Sleep(10*time.Second + 1)
				b.on(drivertest.Renew, fault)
				time.Sleep(15*time.Second - 2)
				b.is(l, true, false)
				time.Sleep(time.Nanosecond)
				b.is(l, false, false)
				if n := b.Calls(drivertest.Renew); n < 3 || n > 100 {
					t.Errorf("tried %d times", n-1)
				}
				b.refused(other.Acquire(t.Context(), time.Second))
				b.heal()
				time.Sleep(time.Second)
				b.is(l, false, true)
				b.must(other.Acquire(t.Context(), time.Second))
				time.Sleep(time.Minute)
				b.is(l, false, true)
				b.must(l.Acquire(t.Context(), 16*time.Second))
				b.must(l.KeepAlive(t.Context(), 6*time.Second))
				time.Sleep(time.Minute)
				b.is(l, true, false)
			})
		})
	}
}

// A failure that passes in time is not visible.
func TestKeepAliveTriesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		b.must(l.KeepAlive(t.Context(), 6*time.Second))
		b.on(drivertest.Renew, drivertest.Fault{LoseReply: true}, 1, 3, 4)
		for range 50 {
			time.Sleep(time.Second)
			b.is(l, true, false)
		}
	})
}

// A passed deadline is final: a later answer does not make the caller a holder again,
// although the store has extended its lock.
func TestKeepAliveLateAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		answer := make(chan struct{})
		time.AfterFunc(15*time.Second+time.Millisecond, func() { close(answer) })
		b.on(drivertest.Renew, drivertest.Fault{HoldReply: answer})
		b.must(l.KeepAlive(t.Context(), 2*time.Second+time.Millisecond))
		time.Sleep(15 * time.Second)
		b.is(l, false, false)
		time.Sleep(5 * time.Second)
		b.is(l, false, true)
		if b.holder() != "me" {
			t.Fatal("the store did not extend it")
		}
		b.must(l.Acquire(t.Context(), 16*time.Second)) // the owner still has it
		b.is(l, true, false)
	})
}

// When the store reports a loss, the lock is lost at once.
func TestKeepAliveLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		b.must(l.KeepAlive(t.Context(), 6*time.Second))
		b.force("me")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.is(l, false, true)
		if l.Expires.After(time.Now()) {
			t.Errorf("expires %v", l.Expires)
		}
		// Nobody has it, but it is not acquired again, because others might have had it.
		time.Sleep(time.Minute)
		b.is(l, false, true)
		if b.holder() != "" {
			t.Error("acquired again")
		}
	})
}

// If Acquire is called with another TTL during a keep-alive, that TTL counts from then
// on.
func TestKeepAliveFollowsAcquire(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 64*time.Second)
		b.must(l.KeepAlive(t.Context(), 32*time.Second))
		b.must(l.Acquire(t.Context(), 128*time.Second))
		time.Sleep(90 * time.Second)
		if n := b.Calls(drivertest.Renew); n != 1 {
			t.Errorf("extended %d times", n)
		}
		b.must(l.Acquire(t.Context(), 16*time.Second)) // shorter than the time given to KeepAlive
		time.Sleep(time.Hour)
		b.is(l, true, false)
		if n := b.Calls(drivertest.Renew); n > 500 {
			t.Errorf("extended %d times in an hour", n)
		}
		b.must(l.Release())
	})
}

// Only calls that must wait do so while a request hangs.
func TestNoWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.on(drivertest.Renew, drivertest.Fault{HoldReply: make(chan struct{})})
		l := b.acquired("me", 48*time.Second)
		b.must(l.KeepAlive(t.Context(), 24*time.Second))
		time.Sleep(25 * time.Second)
		began := time.Now()
		b.is(l, true, false)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Acquire(short, time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		b.must(l.MustRelease())
		if time.Since(began) != time.Second || b.holder() != "" {
			t.Errorf("released after %v", time.Since(began))
		}
	})
}

// Concurrent calls of all methods do not harm the lock or one another.
func TestConcurrentCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.lock("me")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 50 {
					switch (i + j) % 4 {
					case 0:
						_ = l.Acquire(t.Context(), time.Second)
					case 1:
						_ = l.KeepAlive(t.Context(), 500*time.Millisecond)
					case 2:
						_ = l.IsAcquired()
						_ = l.IsReleased()
						_ = l.Release()
					case 3:
						time.Sleep(100 * time.Millisecond)
						_ = l.MustRelease()
					}
				}
			})
		}
		all.Wait()
		b.must(l.Acquire(t.Context(), time.Minute))
		b.is(l, true, false)
		b.must(l.MustRelease())
		b.is(l, false, true)
		if b.holder() != "" {
			t.Error("it is still held")
		}
	})
}
