package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// seeing is a store that shows the test the ctx of each call.
type seeing struct {
	driver.Store
	see func(op string, ctx context.Context)
}

func (s seeing) Acquire(ctx context.Context, r driver.AcquireRequest) (driver.Grant, error) {
	s.see("acquire", ctx)
	return s.Store.Acquire(ctx, r)
}

func (s seeing) Renew(ctx context.Context, rs []driver.RenewRequest) ([]driver.RenewResult, error) {
	s.see("renew", ctx)
	return s.Store.Renew(ctx, rs)
}

func (s seeing) Release(ctx context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	s.see("release", ctx)
	return s.Store.Release(ctx, rs)
}

// A store gets the caller's values and a deadline, whichever method of the ctx it calls
// first. An Unlock with an ended ctx passes a live one on.
func TestStoreSeesTheCallersContext(t *testing.T) {
	for name, first := range map[string]func(context.Context){
		"value":    func(context.Context) {},
		"done":     func(ctx context.Context) { _ = ctx.Done() },
		"deadline": func(ctx context.Context) { _, _ = ctx.Deadline() },
		"derived": func(ctx context.Context) {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			type key struct{}
			var seen []context.Context
			c := newClient(t, seeing{memlock.New(nil), func(op string, ctx context.Context) {
				seen = append(seen, ctx)
				first(ctx)
				if ctx.Value(key{}) != "v" || ctx.Err() != nil {
					t.Errorf("%s: value %v, error %v", op, ctx.Value(key{}), ctx.Err())
				}
				end, ok := ctx.Deadline()
				if left := time.Until(end); !ok || left <= 0 || left > 10*time.Second {
					t.Errorf("%s: the ctx has a deadline in %v (%v)", op, left, ok)
				}
			}}, nil)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Renew(ctx, 0); err != nil {
				t.Error(err)
			}
			cancel()
			if err := h.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if len(seen) != 3 {
				t.Errorf("saw %v", seen)
			}
			for i, ctx := range seen {
				if ctx.Err() == nil {
					t.Errorf("call %d: its ctx outlives the call", i)
				}
				select {
				case <-ctx.Done():
				default:
					t.Errorf("call %d: its ctx has ended but is not done", i)
				}
			}
		})
	}
}

// polling is a store that asks its ctx only for the error, never for the channel.
type polling struct{ driver.Store }

func (polling) Acquire(ctx context.Context, _ driver.AcquireRequest) (driver.Grant, error) {
	for ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return driver.Grant{}, ctx.Err()
}

// An attempt also times out in a store that only polls its ctx.
func TestAttemptThatIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, polling{memlock.New(nil)}, &holdfast.Options{TTL: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := c.TryLock(ctx, "r", nil)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("three attempts of 1 s ended after %v with %v", took, err)
		}
	})
}

// An error names the resource, the operation and the reason, each once.
func TestErrorTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, &holdfast.Options{Owner: "ann", Host: "one"})
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		h := lock(t, c, "r", &holdfast.LockOptions{LockID: "id"})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lost := lock(t, c, "lost", nil)
		if _, err := c.Admin().ForceRelease(t.Context(), "lost", lost.ID()); err != nil {
			t.Fatal(err)
		}
		for want, err := range map[string]error{
			`holdfast: lock "s": context canceled`:                                            second(c.Lock(dead, "s", nil)),
			`holdfast: "r" is held by ann on one`:                                             second(c.TryLock(t.Context(), "r", nil)),
			`holdfast: "r" is held by ann on one: gave up waiting: context deadline exceeded`: second(c.Lock(short, "r", nil)),
			`holdfast: "r" is held by this caller or its lock ID`:                             second(c.Lock(t.Context(), "r", &holdfast.LockOptions{LockID: "id"})),
			`holdfast: lock "s": invalid: TTL 1ms is below 500ms`:                             second(c.Lock(t.Context(), "s", &holdfast.LockOptions{TTL: time.Millisecond})),
			`holdfast: renew "r": context canceled`:                                           h.Renew(dead, 0),
			`holdfast: no hold of lock ID "nobody" to renew: lost`:                            second(c.Admin().RenewID(t.Context(), "nobody", time.Hour)),
			"holdfast: lock of \"lost\" lost: the store no longer has it: released by force, or the store lost its data or its clock stepped": lost.Unlock(t.Context()),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := second(c.Lock(t.Context(), "r", nil)); !errors.Is(err, holdfast.ErrClosed) || err.Error() != "holdfast: client closed" {
			t.Errorf("got %v", err)
		}
	})
}

// If the store does not answer an attempt in time, the error is not that of the caller's ctx.
func TestNoAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := drivertest.Fault{HoldRequest: make(chan struct{})}
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "held", &holdfast.LockOptions{LockID: "id", TTL: time.Hour})
		c := newClient(t, faulty(t, store,
			on(drivertest.Acquire, never), on(drivertest.Renew, never), on(drivertest.Release, never)), nil)
		own := lock(t, newClient(t, faulty(t, store, on(drivertest.Renew, never), on(drivertest.Release, never)), nil), "own",
			&holdfast.LockOptions{TTL: time.Hour})
		soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, call := range []struct {
			want string
			make func() error
		}{
			{`holdfast: lock "r": context deadline exceeded`, func() error { return second(c.TryLock(soon, "r", nil)) }},
			{`holdfast: lock "r": no answer within 10s: context deadline exceeded`, func() error { return second(c.TryLock(t.Context(), "r", nil)) }},
			{`holdfast: lock "r": no answer within 2s: context deadline exceeded`, func() error {
				return second(c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: 6 * time.Second}))
			}},
			{`holdfast: renew "held": no answer within 1s: context deadline exceeded`, func() error { return second(c.Admin().RenewID(t.Context(), "id", time.Second)) }},
			{`holdfast: renew "own": no answer within 10s: context deadline exceeded`, func() error { return own.Renew(t.Context(), 0) }},
			{`holdfast: unlock "own": no answer within 5s: context deadline exceeded`, func() error { return own.Unlock(t.Context()) }},
		} {
			if err := call.make(); err == nil || err.Error() != call.want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got  %v\nwant %s", err, call.want)
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
