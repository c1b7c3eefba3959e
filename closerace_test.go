package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// deafAcquires is a store that answers acquires when it wants, even if their contexts have
// ended.
type deafAcquires struct {
	driver.Store
	answer chan struct{}
}

func (s *deafAcquires) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(context.WithoutCancel(ctx), q)
	<-s.answer
	return g, err
}

// A grant that arrives after Close has released the holds is released too.
func TestGrantAfterClose(t *testing.T) {
	for name, acquire := range map[string]func(*holdfast.Client, context.Context) (*holdfast.Hold, error){
		"Lock": func(c *holdfast.Client, ctx context.Context) (*holdfast.Hold, error) { return c.Lock(ctx, "r", nil) },
		"TryRLock": func(c *holdfast.Client, ctx context.Context) (*holdfast.Hold, error) {
			return c.TryRLock(ctx, "r", nil)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			s := &deafAcquires{store, make(chan struct{})}
			c := unswept(s, nil)
			got := running(func() (*holdfast.Hold, error) { return acquire(c, t.Context()) })
			synctest.Wait()
			if len(holdsIn(t, store, "r")) != 1 {
				t.Fatal("the acquire was not granted")
			}
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			time.Sleep(time.Second)
			close(s.answer)
			if r := <-got; !errors.Is(r.err, holdfast.ErrClosed) {
				t.Errorf("got %v and error %v", r.hold, r.err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			mustBeFree(t, store, "r")
		})
	}
}

// Do does not call its function if Close releases the lock first.
func TestCloseBeforeDoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := unswept(store, nil)
		h := lock(t, c, "r", nil)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		err := holdfast.RunDo(t.Context(), c, h, func(context.Context) error {
			t.Error("Do called fn")
			return nil
		})
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("error %v", err)
		}
		mustBeFree(t, store, "")
	})
}
