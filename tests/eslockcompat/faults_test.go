package eslockcompat

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	lock "github.com/holdfast-go/holdfast/compat/es-distributed-lock"
	"github.com/holdfast-go/holdfast/driver"
)

// What cannot be meant is refused, and nothing is sent.
func TestInvalid(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		long := strings.Repeat("n", 1025)
		errs := map[string]error{
			"TTL 0":        f.lock("r", "me").Acquire(ctx, 0),
			"TTL negative": f.lock("r", "me").Acquire(ctx, -time.Second),
			"nil client":   lock.NewLock(nil, "r").Acquire(ctx, time.Second),
			"nil pointer":  lock.NewLock((*wire)(nil), "r").Acquire(ctx, time.Second),
		}
		for what, name := range map[string]string{"empty": "", "too long": long, "NUL": "a\x00", "no UTF-8": "a\xff"} {
			errs["ID "+what] = f.lock(name, "me").Acquire(ctx, time.Second)
			errs["owner "+what] = f.lock("r", name).Acquire(ctx, time.Second)
			errs["Release of an ID "+what] = f.lock(name, "me").Release()
		}
		for what, err := range errs {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: error %v, want ErrInvalid", what, err)
			}
		}
		dead, cancel := context.WithCancel(ctx)
		cancel()
		if err := f.lock("r", "me").Acquire(dead, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("dead ctx: error %v", err)
		}
		if sent := f.wire.requests(); len(sent) != 0 {
			t.Errorf("%d requests were sent", len(sent))
		}
	})
}

var errCut = errors.New("cut")

// lose loses the answers to the next n updates.
func (f *fixture) lose(n int) {
	var mu sync.Mutex
	f.wire.set(func(req *http.Request) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 && strings.HasSuffix(req.URL.Path, "/_bulk") {
			n--
			return nil, errCut
		}
		return nil, nil
	})
}

// An answer that was lost is an error, and leaves nothing behind that others would
// have to wait for.
func TestReplyLost(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.acquired("first", "me", long) // makes the index
		l := f.lock("r", "me")
		f.lose(1)
		f.failed("Acquire", l.Acquire(ctx, long))
		f.is(l, false, true)
		f.must(f.acquired("r", "other", long).MustRelease())
		f.lose(3)
		f.failed("Acquire", l.Acquire(ctx, long))
		f.eventually("answers come again", func() bool { return l.Acquire(ctx, long) == nil })
		f.lose(1)
		f.failed("Acquire again", l.Acquire(ctx, 2*long))
		f.is(l, true, false) // as it was
		f.must(l.Acquire(ctx, 2*long))
		f.lose(2)
		f.must(l.MustRelease())
		f.must(f.acquired("r", "other", long).MustRelease())
	})
}

// What an Acquire without an answer was granted is given back only as long as no
// other Lock of the owner has joined it: that one would believe in a lock that
// others can acquire.
func TestJoinedIsNotGivenBack(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.acquired("first", "me", long) // makes the index
		peer := lock.NewLock(f.InIndex(f.index), "r").WithOwner("me")
		f.must(peer.Acquire(ctx, long))
		f.must(peer.MustRelease())
		updates := 0
		f.wire.set(func(req *http.Request) (before, after error) {
			if strings.HasSuffix(req.URL.Path, "/_bulk") {
				updates++
			}
			switch updates {
			case 1: // the acquire
				return nil, errCut
			case 2: // the release
				return peer.Acquire(ctx, long), nil
			}
			return nil, nil
		})
		f.failed("Acquire", f.lock("r", "me").Acquire(ctx, long))
		f.wire.set(nil)
		f.is(peer, true, false)
		f.refused(f.lock("r", "other").Acquire(ctx, long))
		f.must(peer.MustRelease())
		f.must(f.acquired("r", "other", long).MustRelease())
	})
}

// The index is deleted while a lock is held: the lock is lost, and the next Acquire
// makes the index again.
func TestIndexDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", long)
		f.Must(t, http.MethodDelete, "/"+f.index, nil)
		f.failed("MustRelease", l.MustRelease())
		f.must(l.Acquire(t.Context(), long))
		f.refused(f.lock("r", "other").Acquire(t.Context(), long))
		f.Must(t, http.MethodDelete, "/"+f.index, nil)
		f.must(l.Acquire(t.Context(), long))
		f.is(l, true, false)
	})
}

// All programs start at once, and the index is missing: one gets the lock.
func TestStartAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for i := range 8 {
			l := f.lock("r", string(rune('a'+i)))
			all.Go(func() {
				err := l.Acquire(t.Context(), long)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					granted++
				default:
					f.refused(err)
				}
			})
		}
		all.Wait()
		if granted != 1 {
			t.Errorf("%d have it", granted)
		}
	})
}

// Calls of one Lock at once are one after the other to the server.
func TestConcurrentCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", long)
		f.must(l.KeepAlive(t.Context(), long-time.Second))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 10 {
					_ = l.Acquire(t.Context(), long)
					_ = l.IsAcquired()
					_ = l.KeepAlive(t.Context(), long/2)
					_ = l.IsReleased()
					_ = l.Release()
				}
			})
		}
		all.Wait()
		f.must(l.Acquire(t.Context(), long))
		f.refused(f.lock("r", "other").Acquire(t.Context(), long))
		f.must(l.MustRelease())
		f.must(f.lock("r", "other").Acquire(t.Context(), long))
	})
}
