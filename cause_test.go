package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// named has the errors of this package, each as the cause of an ended ctx: an errgroup
// cancels with the error of a goroutine, and Do with the loss of its lock.
var named = map[string]error{
	"held":        &holdfast.HeldError{Resource: "another"},
	"lost":        &holdfast.LostError{Resource: "another", Cause: holdfast.ErrForced},
	"unsupported": fmt.Errorf("another: %w", holdfast.ErrUnsupported),
	"invalid":     holdfast.ErrInvalid,
	"unusable":    fmt.Errorf("another: %w", holdfast.ErrUnusable),
	"damaged":     holdfast.ErrDamaged,
	"released":    holdfast.ErrReleased,
	"closed":      holdfast.ErrClosed,
	"stale":       holdfast.ErrStale,
	"too short":   holdfast.ErrTTLTooShort,
	"held, too":   fmt.Errorf("%w: %w", context.Canceled, holdfast.ErrHeld),
}

// saysNothing checks that err is the error of a ctx that was cancelled because of cause, that
// its text has the cause, and that it matches no error about locks.
func saysNothing(t *testing.T, what string, cause, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("%s: got error %v, want that of ctx, with its cause in the text", what, err)
	}
	isNoAnswer(t, what, err)
}

func isNoAnswer(t *testing.T, what string, err error) {
	t.Helper()
	for name, answer := range named {
		for e := answer; e != nil; e = errors.Unwrap(e) {
			if !errors.Is(e, context.Canceled) && errors.Is(err, e) {
				t.Errorf("%s: error %v matches %s, which only the store may say", what, err, name)
			}
		}
	}
	var held *holdfast.HeldError
	var lost *holdfast.LostError
	if errors.As(err, &held) || errors.As(err, &lost) {
		t.Errorf("%s: %v is a %T", what, err, err)
	}
}

// outsider is a store whose errors wrap the cause of ctx, as errors of net/http do. It
// applies each request, and then answers only if its ctx does not end within a second.
type outsider struct {
	*memlock.Store
	cause func(context.Context) error
	every time.Duration // how often it checks the ctx; the ctx of an attempt counts the checks
	hangs atomic.Bool
}

func (s *outsider) answer(ctx context.Context) error {
	if !s.hangs.Load() {
		return s.failed(ctx)
	}
	for range time.Second / s.every {
		if err := s.failed(ctx); err != nil {
			return err
		}
		time.Sleep(s.every)
	}
	return nil
}

func (s *outsider) failed(ctx context.Context) error {
	if err := s.cause(ctx); err != nil {
		return fmt.Errorf("outsider: %w", err)
	}
	return nil
}

func (s *outsider) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(context.Background(), q)
	if ended := s.answer(ctx); ended != nil {
		return driver.Grant{}, ended
	}
	return g, err
}

func (s *outsider) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs, err := s.Store.Renew(context.Background(), qs)
	if ended := s.answer(ctx); ended != nil {
		return nil, ended
	}
	return rs, err
}

func (s *outsider) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := s.failed(ctx); err != nil {
		return nil, err // without releasing anything
	}
	return s.Store.Release(ctx, qs)
}

func (s *outsider) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if err := s.answer(ctx); err != nil {
			yield(driver.Status{}, err)
			return
		}
		s.Store.List(ctx, f)(yield)
	}
}

func (s *outsider) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return func(yield func(driver.Place, error) bool) {
		if err := s.answer(ctx); err != nil {
			yield(driver.Place{}, err)
			return
		}
		s.Store.Waiters(ctx, f)(yield)
	}
}

func (s *outsider) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	if err := s.answer(ctx); err != nil {
		return driver.SweepResult{}, err
	}
	return s.Store.Sweep(ctx, q)
}

// A caller's ctx ends because of another lock, before or during a call. Whatever the store
// returns then is not taken for the store's answer: a possible grant is cleaned up, and no
// hold is lost.
func TestCauseIsNoAnswer(t *testing.T) {
	ways := map[string]func(context.Context) error{
		"seldom": context.Cause, // it never asks for the channel
		"often":  context.Cause,
		"by Done": func(ctx context.Context) error {
			_ = ctx.Done()
			return context.Cause(ctx)
		},
		"of a copy": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return context.Cause(ctx)
		},
		"of a copy with values": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, t, t), time.Hour)
			defer cancel()
			return context.Cause(ctx)
		},
	}
	for way, look := range ways {
		for name, cause := range named {
			inBubble(t, way+", "+name, func(t *testing.T) {
				s := &outsider{Store: memlock.New(nil), cause: look, every: time.Millisecond}
				if way == "seldom" {
					s.every = 100 * time.Millisecond
				}
				c := newClient(t, s, &holdfast.Options{NoSweep: true})
				d := newClient(t, s.Store, &holdfast.Options{NoSweep: true})
				own := lock(t, c, "own", &holdfast.LockOptions{LockID: "id"})

				dead, end := context.WithCancelCause(t.Context())
				short := lock(t, c, "short", nil)
				end(cause)
				if err := short.Unlock(dead); err != nil {
					t.Errorf("Unlock with a dead ctx: %v", err)
				}
				s.hangs.Store(true)
				for what, call := range map[string]func(context.Context) error{
					"Lock":    func(ctx context.Context) error { return second(c.Lock(ctx, "r", nil)) },
					"TryLock": func(ctx context.Context) error { return second(c.TryLock(ctx, "r", nil)) },
					"RLock":   func(ctx context.Context) error { return second(c.RLock(ctx, "r", nil)) },
					"under a lock": func(ctx context.Context) error {
						bound, cancel := own.Bind(ctx)
						defer cancel()
						return second(c.Lock(bound, "r", nil))
					},
					"Renew":        func(ctx context.Context) error { return own.Renew(ctx, 0) },
					"RenewID":      func(ctx context.Context) error { return second(c.Admin().RenewID(ctx, "id", time.Hour)) },
					"ReleaseID":    func(ctx context.Context) error { return second(c.Admin().ReleaseID(ctx, "id")) },
					"ForceRelease": func(ctx context.Context) error { return second(c.Admin().ForceRelease(ctx, "own", own.ID())) },
					"Holds":        func(ctx context.Context) error { return firstError(ctx, c) },
					"Waiters": func(ctx context.Context) error {
						for _, err := range c.Admin().Waiters(ctx, holdfast.Filter{}) {
							if err != nil {
								return err
							}
						}
						return nil
					},
					"Sweep": func(ctx context.Context) error { return second(c.Admin().Sweep(ctx)) },
				} {
					saysNothing(t, what+", too late", cause, call(dead))
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
					err := call(ctx)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v, want that of ctx", what, err)
					}
					isNoAnswer(t, what, err)
					time.Sleep(time.Second) // time for a clean-up
					mustBeFree(t, s.Store, "r")
					alive(t, own)
				}
				s.hangs.Store(false)
				unlock(t, own)
				unlock(t, lock(t, d, "r", nil))
			})
		}
	}
}

// The error of a wait matches ErrHeld only if the store has refused the lock.
func TestCauseOfAWait(t *testing.T) {
	for name, cause := range named {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, nil), newClient(t, store, nil)
			lock(t, d, "r", nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			held := heldError(t, second(c.Lock(ctx, "r", nil)))
			if held.Resource != "r" || held.BySelf {
				t.Errorf("got %+v", held)
			}
			saysNothing(t, "the cause of the refusal", cause, held.Cause)
		})
	}
}

// The values of the caller's ctx reach the store, but its cause does not, whichever method
// the store calls.
func TestStoreSeesNoCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		calls := 0
		c := newClient(t, seeing{memlock.New(nil), func(op string, ctx context.Context) {
			calls++
			if ctx.Value(key{}) != "v" {
				t.Errorf("%s: the ctx lacks the caller's value", op)
			}
			if err := context.Cause(ctx); err != nil {
				t.Errorf("%s: the cause is %v", op, err)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
				t.Errorf("%s: the ctx has the deadline %v (%v)", op, deadline, ok)
			}
		}}, nil)
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel(holdfast.ErrHeld)
		if err := h.Unlock(ctx); err != nil || calls != 2 {
			t.Errorf("Unlock: %v; %d calls", err, calls)
		}
	})
}
