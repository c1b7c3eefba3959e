package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

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
