package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestDo(t *testing.T) {
	failure := errors.New("fn failed")
	lose := func(ctx context.Context, t *testing.T, c *holdfast.Client) {
		if _, err := c.Admin().ForceRelease(context.WithoutCancel(ctx), "r", holdfast.HoldID{}); err != nil {
			t.Error(err)
		}
	}
	never := drivertest.Fault{LoseRequest: true}
	for name, test := range map[string]struct {
		fn      func(context.Context, *testing.T, *holdfast.Client) error
		rules   []rule
		want    []error
		wantNot []error
	}{
		"all well": {
			fn: func(context.Context, *testing.T, *holdfast.Client) error { return nil },
		},
		"fn fails": {
			fn:      func(context.Context, *testing.T, *holdfast.Client) error { return failure },
			want:    []error{failure},
			wantNot: []error{holdfast.ErrLost, holdfast.ErrReleased},
		},
		"lost": {
			fn: func(ctx context.Context, t *testing.T, c *holdfast.Client) error {
				lose(ctx, t, c)
				<-ctx.Done()
				return nil
			},
			want: []error{holdfast.ErrLost, holdfast.ErrForced},
		},
		"lost and fn fails": {
			fn: func(ctx context.Context, t *testing.T, c *holdfast.Client) error {
				lose(ctx, t, c)
				return failure
			},
			want: []error{holdfast.ErrLost, failure},
		},
		"not released": {
			fn:      func(context.Context, *testing.T, *holdfast.Client) error { return nil },
			rules:   []rule{on(drivertest.Release, never)},
			want:    []error{drivertest.ErrFault},
			wantNot: []error{holdfast.ErrLost},
		},
		"fn fails and not released": {
			fn:    func(context.Context, *testing.T, *holdfast.Client) error { return failure },
			rules: []rule{on(drivertest.Release, never)},
			want:  []error{failure, drivertest.ErrFault},
		},
		"released by lock ID meanwhile": {
			fn: func(ctx context.Context, t *testing.T, c *holdfast.Client) error {
				if _, err := c.Admin().ReleaseID(context.WithoutCancel(ctx), "id"); err != nil {
					t.Error(err)
				}
				return nil
			},
			want: []error{holdfast.ErrReleased},
		},
		"closed meanwhile": {
			fn: func(_ context.Context, t *testing.T, c *holdfast.Client) error {
				return c.Close()
			},
			want: []error{holdfast.ErrClosed},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			c := newClient(t, faulty(t, memlock.New(nil), test.rules...), nil)
			err := c.Do(t.Context(), "r", &holdfast.LockOptions{LockID: "id"}, func(ctx context.Context) error {
				if ctx.Err() != nil {
					t.Error("fn's ctx has ended as fn begins")
				}
				return test.fn(ctx, t, c)
			})
			if len(test.want) == 0 && err != nil {
				t.Errorf("got error %v", err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("got error %v, want %v", err, want)
				}
			}
			for _, not := range test.wantNot {
				if errors.Is(err, not) {
					t.Errorf("got error %v, which is also %v", err, not)
				}
			}
		})
	}
}

// If fn returns the error of the lock's end, or wraps it, Do does not repeat it.
func TestDoSaysALossOnce(t *testing.T) {
	for name, end := range map[string]func(context.Context, *holdfast.Client) error{
		"lost": func(ctx context.Context, c *holdfast.Client) error {
			return second(c.Admin().ForceRelease(ctx, "r", holdfast.HoldID{}))
		},
		"released": func(ctx context.Context, c *holdfast.Client) error { return second(c.Admin().ReleaseID(ctx, "id")) },
		"closed": func(ctx context.Context, c *holdfast.Client) error {
			go c.Close()
			return nil
		},
	} {
		for how, returned := range map[string]func(cause error) error{
			"it":       func(cause error) error { return cause },
			"it, more": func(cause error) error { return fmt.Errorf("fn: %w", cause) },
		} {
			for call, do := range map[string]func(*holdfast.Client, context.Context, string, *holdfast.LockOptions, func(context.Context) error) error{
				"Do": (*holdfast.Client).Do, "TryDo": (*holdfast.Client).TryDo,
			} {
				inBubble(t, call+" "+name+", returns "+how, func(t *testing.T) {
					c := newClient(t, memlock.New(nil), nil)
					var want error
					err := do(c, t.Context(), "r", &holdfast.LockOptions{LockID: "id"}, func(ctx context.Context) error {
						if err := end(t.Context(), c); err != nil {
							t.Error(err)
						}
						<-ctx.Done()
						want = context.Cause(ctx)
						return returned(want)
					})
					if !errors.Is(err, want) || strings.Count(err.Error(), want.Error()) != 1 {
						t.Errorf("got error %v, want once %v", err, want)
					}
				})
			}
		}
	}
}

func TestDoWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		lock(t, newClient(t, store, nil), "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := newClient(t, store, nil).Do(ctx, "r", nil, func(context.Context) error {
			t.Error("fn ran without the lock")
			return nil
		})
		mustBeHeld(t, err)
	})
}

func TestTryDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, failure := memlock.New(nil), errors.New("fn failed")
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		err := c.TryDo(t.Context(), "r", nil, func(ctx context.Context) error {
			began := time.Now()
			err := other.TryDo(t.Context(), "r", nil, func(context.Context) error {
				t.Error("fn ran without the lock")
				return nil
			})
			mustBeHeld(t, err)
			if took := time.Since(began); took != 0 {
				t.Errorf("TryDo waited for %v", took)
			}
			if h := holdfast.HoldOf(ctx); h == nil || h.Resource() != "r" {
				t.Errorf("fn's ctx is bound to %v", h)
			}
			if _, err := c.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return failure
		})
		if !errors.Is(err, failure) || !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("got error %v", err)
		}
		mustBeFree(t, store, "r")
	})
}

func TestDoReleasesBeforePanicGoesOn(t *testing.T) {
	store := memlock.New(nil)
	c := newClient(t, store, nil)
	defer func() {
		if r := recover(); r != "oops" {
			t.Errorf("recovered %v", r)
		}
		mustBeFree(t, store, "r")
	}()
	_ = c.Do(t.Context(), "r", nil, func(context.Context) error { panic("oops") })
}

func TestBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		c := newClient(t, memlock.New(nil), nil)
		own := errors.New("own reasons")
		for name, test := range map[string]struct {
			end  func(*holdfast.Hold, context.CancelCauseFunc, context.CancelFunc)
			want error
		}{
			"released": {
				func(h *holdfast.Hold, _ context.CancelCauseFunc, _ context.CancelFunc) { unlock(t, h) },
				holdfast.ErrReleased,
			},
			"lost": {
				func(h *holdfast.Hold, _ context.CancelCauseFunc, _ context.CancelFunc) {
					_, _ = c.Admin().ForceRelease(t.Context(), h.Resource(), h.ID())
				},
				holdfast.ErrForced,
			},
			"ctx ends": {
				func(_ *holdfast.Hold, cancel context.CancelCauseFunc, _ context.CancelFunc) { cancel(own) },
				own,
			},
			"done": {
				func(_ *holdfast.Hold, _ context.CancelCauseFunc, cancel context.CancelFunc) { cancel() },
				context.Canceled,
			},
		} {
			h := lock(t, c, name, nil)
			ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
			bound, done := h.Bind(ctx)
			if bound.Err() != nil || bound.Value(key{}) != 1 {
				t.Errorf("%s: bound begins with %v and value %v", name, bound.Err(), bound.Value(key{}))
			}
			test.end(h, cancel, done)
			synctest.Wait()
			if got := context.Cause(bound); !errors.Is(got, test.want) {
				t.Errorf("%s: got cause %v, want %v", name, got, test.want)
			}
			done()
			cancel(nil)
		}

		h := lock(t, c, "gone", nil)
		unlock(t, h)
		bound, done := h.Bind(t.Context())
		defer done()
		if bound.Err() == nil {
			t.Error("a ctx that was bound to an ended hold is alive")
		}
	})
}

// However a hold is released, the contexts that are bound to it have ended before the store
// gets the release, even if no other goroutine has run.
func TestBoundContextsEndFirst(t *testing.T) {
	ctx := context.Background()
	for name, end := range map[string]func(c *holdfast.Client, h *holdfast.Hold) error{
		"Unlock":      func(_ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(ctx) },
		"UnlockAfter": func(_ *holdfast.Client, h *holdfast.Hold) error { return h.UnlockAfter(ctx, time.Second) },
		"ReleaseID": func(c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ReleaseID(ctx, h.LockID())
			return err
		},
		"ForceRelease": func(c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ForceRelease(ctx, h.Resource(), h.ID())
			return err
		},
		"Close": func(c *holdfast.Client, _ *holdfast.Hold) error { return c.Close() },
	} {
		inBubble(t, name, func(t *testing.T) {
			var bound []context.Context
			alive, releases := 0, 0
			c := newClient(t, faulty(t, memlock.New(nil), func(call drivertest.Call) drivertest.Fault {
				if call.Op == drivertest.Release {
					releases++
					for _, ctx := range bound {
						if ctx.Err() == nil {
							alive++
						}
					}
				}
				return drivertest.Fault{}
			}), nil)
			h := lock(t, c, "r", nil)
			for range 100 {
				ctx, done := h.Bind(ctx)
				defer done()
				bound = append(bound, ctx)
			}
			if err := end(c, h); err != nil {
				t.Fatal(err)
			}
			if releases != 1 || alive > 0 {
				t.Errorf("%d of %d contexts were alive at %d releases", alive, len(bound), releases)
			}
		})
	}
}

// A lock whose ctx is bound to a hold of the same resource would wait for its own caller: it
// is refused at once, in every mode.
func TestReentry(t *testing.T) {
	type taking = func(context.Context, *holdfast.Client) (*holdfast.Hold, error)
	of := func(resource string, o *holdfast.LockOptions, f func(*holdfast.Client, context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error)) taking {
		return func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return f(c, ctx, resource, o) }
	}
	permit := &holdfast.LockOptions{Limit: 2}
	exclusive, shared := of("r", nil, (*holdfast.Client).Lock), of("r", nil, (*holdfast.Client).RLock)
	for name, test := range map[string]struct {
		outer, inner taking
		granted      bool
	}{
		"Lock in Lock":            {exclusive, exclusive, false},
		"RLock in Lock":           {exclusive, shared, false},
		"Lock in RLock":           {shared, exclusive, false},
		"RLock in RLock":          {shared, shared, false},
		"TryLock in Lock":         {exclusive, of("r", nil, (*holdfast.Client).TryLock), false},
		"TryRLock in RLock":       {shared, of("r", nil, (*holdfast.Client).TryRLock), false},
		"second permit of two":    {of("r", permit, (*holdfast.Client).RLock), of("r", permit, (*holdfast.Client).RLock), false},
		"Lock of another one":     {of("s", nil, (*holdfast.Client).Lock), exclusive, true},
		"Lock by another lock ID": {exclusive, of("r", &holdfast.LockOptions{LockID: "another"}, (*holdfast.Client).Lock), false},
	} {
		inBubble(t, name, func(t *testing.T) {
			c := newClient(t, memlock.New(nil), nil)
			outer, err := test.outer(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := outer.Bind(t.Context())
			defer cancel()
			within, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			began := time.Now()
			inner, err := test.inner(within, c)
			if took := time.Since(began); took > 0 {
				t.Errorf("it took %v", took)
			}
			if test.granted {
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, inner)
				return
			}
			held := heldError(t, err)
			if !held.BySelf || len(held.Holders) != 1 || held.Holders[0].HoldID != outer.ID() || held.Holders[0].Left <= 0 {
				t.Errorf("got %+v", held)
			}
			if want := `holdfast: "r" is held by this caller or its lock ID`; err.Error() != want {
				t.Errorf("it says %v, want %s", err, want)
			}
			unlock(t, outer)
			again, err := test.inner(context.WithoutCancel(ctx), c)
			if err != nil {
				t.Fatalf("after the outer hold has ended: %v", err)
			}
			unlock(t, again)
		})
	}
	inBubble(t, "Do in Do", func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Do(ctx, "a", nil, func(ctx context.Context) error {
			return c.Do(ctx, "b", nil, func(ctx context.Context) error {
				return c.Do(ctx, "a", nil, func(context.Context) error { return errors.New("it ran") })
			})
		})
		if held := heldError(t, err); !held.BySelf || held.Resource != "a" {
			t.Errorf("got %+v", held)
		}
	})
	inBubble(t, "with the ctx from before Do", func(t *testing.T) {
		// As a goroutine does that the holder does not wait for.
		c := newClient(t, memlock.New(nil), nil)
		var after <-chan result
		err := c.Do(t.Context(), "r", nil, func(context.Context) error {
			after = locking(t.Context(), c, "r", nil)
			synctest.Wait()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, granted(t, after))
	})
	inBubble(t, "of another Client", func(t *testing.T) {
		// For this Client the holds of the other one are another process's.
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		ctx, cancel := lock(t, d, "r", nil).Bind(t.Context())
		defer cancel()
		_, err := c.TryLock(ctx, "r", nil)
		if held := heldError(t, err); held.BySelf {
			t.Errorf("got %+v", held)
		}
	})
	inBubble(t, "endless", func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		outer := lock(t, c, "r", &holdfast.LockOptions{TTL: holdfast.Forever})
		ctx, cancel := outer.Bind(t.Context())
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		_, err := c.Lock(ctx, "r", nil)
		if held := heldError(t, err); !held.BySelf || held.Holders[0].Left != holdfast.Forever {
			t.Errorf("got %+v", held)
		}
	})
}

// A caller that waits long while it holds other locks may be part of a deadlock. The log
// names these locks once.
func TestLongWaitUnderHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		var out bytes.Buffer
		c := holdfast.New(store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		other := newClient(t, store, nil)
		wanted := lock(t, other, "wanted", nil)
		err := c.Do(t.Context(), "a", nil, func(ctx context.Context) error {
			return c.Do(ctx, "b", nil, func(ctx context.Context) error {
				waits := locking(ctx, c, "wanted", nil)
				synctest.Wait()
				ends := locking(t.Context(), c, "wanted", nil) // bound to no hold
				time.Sleep(3 * time.Minute)
				unlock(t, wanted)
				for _, w := range []<-chan result{waits, ends} {
					r := <-w
					if r.err != nil {
						return r.err
					}
					unlock(t, r.hold)
				}
				waits = locking(ctx, c, "free", nil) // it is granted at once
				unlock(t, (<-waits).hold)
				time.Sleep(time.Minute)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil { // Close waits for the log
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "waits long"); n != 1 || !strings.Contains(out.String(), `resource=wanted waited=30s holds="[b a]"`) {
			t.Errorf("the warning was logged %d times:\n%s", n, &out)
		}
	})
}

func TestHoldsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		is := func(ctx context.Context, want string) {
			t.Helper()
			var got string
			for h := range holdfast.HoldsOf(ctx) {
				got += h.Resource()
			}
			if got != want {
				t.Errorf("the holds are of %q, want %q", got, want)
			}
		}
		is(t.Context(), "")
		err := c.Do(t.Context(), "a", nil, func(ctx context.Context) error {
			return c.Do(ctx, "b", nil, func(inner context.Context) error {
				ctx, cancel := holdfast.HoldOf(ctx).Bind(inner)
				defer cancel()
				is(ctx, "aba")
				for h := range holdfast.HoldsOf(ctx) {
					if h != holdfast.HoldOf(ctx) {
						t.Error("HoldOf does not return the last hold")
					}
					break
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}
