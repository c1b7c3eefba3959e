package eslockcompat

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A lock that is kept alive outlives its TTL; Release ends it, and so does its ctx.
func TestKeepAlive(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const ttl = 3 * time.Second // a busy machine may stand still for a while
		l := f.acquired("r", "me", ttl)
		f.must(l.KeepAlive(t.Context(), ttl-ttl/6))
		f.must(l.KeepAlive(t.Context(), ttl/2))
		first := l.Expires
		f.eventually("it has outlived its TTL", func() bool {
			f.refused(f.lock("r", "other").Acquire(t.Context(), long))
			f.is(l, true, false)
			return time.Now().After(first.Add(100 * time.Millisecond))
		})
		if !l.Expires.After(first) || f.oldExpires("r").Before(l.Expires.Add(-time.Second)) {
			t.Errorf("it expires %v, old programs read %v", l.Expires, f.oldExpires("r"))
		}
		f.must(l.MustRelease())
		f.must(f.acquired("r", "other", long).MustRelease())

		ctx, cancel := context.WithCancel(t.Context())
		l = f.acquired("r", "me", short)
		f.must(l.KeepAlive(ctx, short/2))
		cancel()
		f.eventually("it has expired", func() bool { return f.lock("r", "other").Acquire(t.Context(), long) == nil })
		f.is(l, false, true)
	})
}

func TestKeepAliveRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.lock("r", "me")
		if err := l.KeepAlive(t.Context(), time.Second); err == nil {
			t.Error("before Acquire: no error")
		}
		f.must(l.Acquire(t.Context(), long))
		if err := l.KeepAlive(t.Context(), long); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("not below the TTL: error %v", err)
		}
		f.must(l.Release())
		if err := l.KeepAlive(t.Context(), time.Second); err == nil {
			t.Error("after Release: no error")
		}
	})
}

// As programs with es-distributed-lock do: what has expired is kept alive again.
func TestKeepAliveOfExpired(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", short)
		f.eventually("it has expired", l.IsReleased)
		f.must(l.KeepAlive(t.Context(), short/2))
		f.is(l, true, false)
		f.must(l.Release())
		l = f.acquired("r", "me", short)
		f.eventually("another has it", func() bool { return f.lock("r", "other").Acquire(t.Context(), long) == nil })
		f.refused(l.KeepAlive(t.Context(), short/2))
	})
}

// No server answers: IsAcquired turns false before others can have the lock, and
// stays so.
func TestKeepAliveFails(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", short)
		cut := errors.New("cut")
		f.wire.set(func(*http.Request) (before, after error) { return cut, nil })
		f.must(l.KeepAlive(t.Context(), short/2))
		direct := f.old("r", "other")
		f.eventually("another has it", func() bool {
			if direct.Acquire(t.Context(), short) != nil {
				return false
			}
			f.is(l, false, true)
			return true
		})
		f.failed("Acquire without a server", l.Acquire(t.Context(), long))
		f.wire.set(nil)
		f.is(l, false, true)
		f.eventually("it is free again", func() bool { return l.Acquire(t.Context(), long) == nil })
		f.is(l, true, false)
	})
}

// What was deleted by hand is lost, and known to be so with the next extension.
func TestKeepAliveLost(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", 2*time.Second)
		f.must(l.KeepAlive(t.Context(), 1900*time.Millisecond))
		f.Must(t, http.MethodDelete, "/"+f.index+"/_doc/r", nil)
		f.eventually("it is lost", func() bool { return !l.IsAcquired() })
		f.is(l, false, true)
		if l.Expires.After(time.Now()) {
			t.Errorf("lost, it expires %v", l.Expires)
		}
		if status, reply := f.Ask(t.Context(), t, http.MethodGet, "/"+f.index+"/_doc/r", nil); status != http.StatusNotFound {
			t.Errorf("acquired again: %v", reply)
		}
	})
}
