package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// initializing is a store with an Init.
type initializing struct {
	driver.Store
	init   func(context.Context) error
	closed atomic.Int32
}

func (s *initializing) Init(ctx context.Context) error { return s.init(ctx) }

func (s *initializing) Close() error {
	s.closed.Add(1)
	return s.Store.Close()
}

func TestInit(t *testing.T) {
	inBubble(t, "once, before the first operation", func(t *testing.T) {
		var calls atomic.Int32
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return nil
		}}
		c := newClient(t, s, nil)
		if calls.Load() != 0 {
			t.Error("New ran Init")
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { unlock(t, lock(t, c, fmt.Sprint(i), nil)) })
		}
		all.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("Init ran %d times", n)
		}
	})
	t.Run("repeated after a failure", func(t *testing.T) {
		broken := fmt.Errorf("%w: no index", driver.ErrUnusable)
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return broken }}
		c := newClient(t, s, nil)
		if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, holdfast.ErrUnusable) {
			t.Errorf("got error %v", err)
		}
		s.init = func(context.Context) error { return nil }
		tryLock(t, c, "r", nil)
	})
	t.Run("logged with its results", func(t *testing.T) {
		var log strings.Builder
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
		c := newClient(t, s, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		tryLock(t, c, "r", nil)
		if err := c.Close(); err != nil { // Close waits until everything is logged
			t.Fatal(err)
		}
		if want := "store=memory wakesWaiters=true"; strings.Count(log.String(), want) != 1 {
			t.Errorf("the log is\n%s, want %q in it once", &log, want)
		}
	})
	inBubble(t, "a hanging one times out for all callers", func(t *testing.T) {
		var calls atomic.Int32
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			calls.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}}
		c := newClient(t, s, &holdfast.Options{TTL: time.Second})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				_, err := c.TryLock(context.Background(), fmt.Sprint(i), nil)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("got error %v", err)
				}
				if want := "the store was not ready within 10s"; !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 10*time.Second || calls.Load() != 1 {
			t.Errorf("took %v and %d runs of Init, want 10 s and one", took, calls.Load())
		}
	})
	inBubble(t, "a failed one fails for all callers", func(t *testing.T) {
		var calls atomic.Int32
		broken := errors.New("no server")
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return broken
		}}
		c := newClient(t, s, nil)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if _, err := c.TryLock(t.Context(), fmt.Sprint(i), nil); !errors.Is(err, broken) {
					t.Errorf("got error %v", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Second || calls.Load() != 1 {
			t.Errorf("took %v and %d runs of Init, want 1 s and one", took, calls.Load())
		}
		_, _ = c.TryLock(t.Context(), "r", nil)
		if calls.Load() != 2 {
			t.Error("the next operation did not call Init again")
		}
	})
	inBubble(t, "continues when its first caller leaves", func(t *testing.T) {
		type key struct{}
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			time.Sleep(2 * time.Second)
			if ctx.Value(key{}) != "v" {
				t.Error("the caller's values are missing")
			}
			return ctx.Err()
		}}
		c := newClient(t, s, nil)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		first := locking(ctx, c, "r", nil)
		synctest.Wait()
		began := time.Now()
		if h := lock(t, c, "s", nil); time.Since(began) != 2*time.Second {
			t.Errorf("%q was granted after %v", h.Resource(), time.Since(began))
		}
		if r := <-first; !errors.Is(r.err, context.DeadlineExceeded) || r.at.Sub(began) != time.Second {
			t.Errorf("got error %v after %v", r.err, r.at.Sub(began))
		}
	})
	inBubble(t, "a hanging one delays neither others nor Close", func(t *testing.T) {
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		c := unswept(s, nil)
		first := locking(context.Background(), c, "r", nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		second := locking(context.Background(), c, "s", nil)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, w := range []<-chan result{first, second} {
			if r := <-w; !errors.Is(r.err, holdfast.ErrClosed) || r.at != began {
				t.Errorf("ended %v later with %v", r.at.Sub(began), r.err)
			}
		}
	})
}

// Close closes a store that Open made, but not one that was passed to New.
func TestOpenOwnsTheStore(t *testing.T) {
	s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
	broken := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return driver.ErrUnusable }}
	register(t, "test-owned", s)
	register(t, "test-broken", broken)

	c, err := holdfast.Open(t.Context(), "test-owned:", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil || s.closed.Load() != 1 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}
	if err := c.Close(); err != nil || s.closed.Load() != 1 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}

	if _, err := holdfast.Open(t.Context(), "test-broken:", nil); !errors.Is(err, holdfast.ErrUnusable) {
		t.Errorf("got error %v", err)
	}
	if broken.closed.Load() != 1 {
		t.Error("an unusable store was left open")
	}

	s = &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
	if err := unswept(s, nil).Close(); err != nil || s.closed.Load() != 0 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}
}

var registered sync.Map // URL scheme to *driver.Store

// register registers a store for Open and one test. Schemes cannot be removed, so with -count
// a later run finds its own store under the scheme.
func register(t *testing.T, scheme string, s driver.Store) {
	t.Helper()
	if _, known := registered.Swap(scheme, s); known {
		return
	}
	driver.Register(scheme, func(context.Context, *url.URL) (driver.Store, error) {
		s, _ := registered.Load(scheme)
		return s.(driver.Store), nil
	})
}

// Open refuses invalid options before it opens the store.
func TestOpenChecksOptions(t *testing.T) {
	for name, o := range map[string]*holdfast.Options{
		"TTL":       {TTL: time.Millisecond},
		"margin":    {Margin: time.Hour},
		"poll":      {Poll: time.Microsecond},
		"retention": {Retention: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := holdfast.Open(t.Context(), "memory:", o)
			if !errors.Is(err, holdfast.ErrInvalid) || c != nil {
				t.Errorf("opened with %+v: error %v", *o, err)
			}
		})
	}
}

// An Init that ignores its ctx delays no caller longer than one that does not.
func TestInitThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed := make(chan struct{})
		defer close(fixed)
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			<-fixed
			return nil
		}}
		c := holdfast.New(s, nil)
		began := time.Now()
		if _, err := c.Lock(t.Context(), "r", nil); err == nil || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: error %v", err)
		}
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := c.Close(); err == nil {
			t.Error("Close does not return that a call of the store is still running")
		}
	})
}
