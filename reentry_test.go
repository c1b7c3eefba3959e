package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// Work under a hold that asks for the same resource would wait for itself: it is told
// so at once, where nothing else can come of it.
func TestNested(t *testing.T) {
	limit := func(n int) *holdfast.LockOptions { return &holdfast.LockOptions{Limit: n} }
	type taking = func(context.Context, *holdfast.Client) (*holdfast.Hold, error)
	exclusive := func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return c.Lock(ctx, "r", nil) }
	shared := func(o *holdfast.LockOptions) taking {
		return func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return c.RLock(ctx, "r", o) }
	}
	for name, test := range map[string]struct {
		outer, inner taking
		refused      bool
	}{
		"exclusive in exclusive": {exclusive, exclusive, true},
		"shared in exclusive":    {exclusive, shared(nil), true},
		"exclusive in shared":    {shared(nil), exclusive, true},
		"shared in shared":       {shared(nil), shared(nil), false},
		"second permit of two":   {shared(limit(2)), shared(limit(2)), false},
		"second permit of one":   {shared(limit(1)), shared(limit(1)), true},
		"another resource":       {func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return c.Lock(ctx, "s", nil) }, exclusive, false},
		"TryLock":                {exclusive, func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return c.TryLock(ctx, "r", nil) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, memlock.New(nil), nil)
				outer, err := test.outer(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := outer.Bind(t.Context())
				defer cancel()
				began := time.Now()
				within, stop := context.WithTimeout(context.WithValue(ctx, "some", "value"), time.Minute) //nolint:staticcheck // any key
				defer stop()
				inner, err := test.inner(within, c)
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
				if !test.refused {
					if err != nil {
						t.Fatal(err)
					}
					unlock(t, inner)
					return
				}
				if held := heldError(t, err); !held.BySelf || len(held.Holders) != 1 || held.Holders[0].HoldID != outer.ID() {
					t.Errorf("got %+v", held)
				}
				if !strings.Contains(err.Error(), "you hold it yourself, by the ctx that Do or Bind gave") {
					t.Errorf("it says %v", err)
				}
				unlock(t, outer)
				again, err := test.inner(context.WithoutCancel(ctx), c)
				if err != nil {
					t.Fatalf("after the outer hold has ended: %v", err)
				}
				unlock(t, again)
			})
		})
	}
	t.Run("Do in Do", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
	})
	t.Run("of another Client", func(t *testing.T) {
		// That one's holds are another process's, as far as this one knows.
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, nil), newClient(t, store, nil)
			ctx, cancel := lock(t, d, "r", nil).Bind(t.Context())
			defer cancel()
			_, err := c.TryLock(ctx, "r", nil)
			if held := heldError(t, err); held.BySelf {
				t.Errorf("got %+v", held)
			}
		})
	})
	t.Run("shared, while a writer waits", func(t *testing.T) {
		// The writer waits for the outer hold, and the inner one must not wait for it.
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memlock.New(nil), nil)
			outer, err := c.RLock(t.Context(), "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := outer.Bind(t.Context())
			defer cancel()
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			writer := locking(t.Context(), c, "r", nil)
			synctest.Wait()
			inner, err := c.RLock(ctx, "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			unlock(t, inner)
			unlock(t, outer)
			if r := <-writer; r.err != nil {
				t.Error(r.err)
			}
		})
	})
	t.Run("shared, while there is no permit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memlock.New(nil), nil)
			outer, err := c.RLock(t.Context(), "r", limit(2))
			other, err2 := c.RLock(t.Context(), "r", limit(2))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			ctx, cancel := outer.Bind(t.Context())
			defer cancel()
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			writer := locking(t.Context(), c, "r", nil) // waits for the outer hold as well
			synctest.Wait()
			inner := running(func() (*holdfast.Hold, error) { return c.RLock(ctx, "r", limit(2)) })
			synctest.Wait()
			if len(inner) != 0 {
				t.Fatal("it did not wait")
			}
			unlock(t, other)
			r := <-inner
			if r.err != nil {
				t.Fatal(r.err)
			}
			unlock(t, r.hold)
			unlock(t, outer)
			if r := <-writer; r.err != nil {
				t.Error(r.err)
			}
		})
	})
	t.Run("bound twice to one hold", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memlock.New(nil), nil)
			outer, err := c.RLock(t.Context(), "r", limit(2))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := outer.Bind(t.Context())
			defer cancel()
			ctx, cancel = outer.Bind(ctx)
			defer cancel()
			if _, err := c.TryRLock(ctx, "r", limit(2)); err != nil {
				t.Errorf("the second permit of two: %v", err)
			}
		})
	})
}
