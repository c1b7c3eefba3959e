package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// nonsense is a store with inconsistent refusals.
type nonsense struct {
	driver.Store
	answer func(*holdfast.HeldError)
	asked  atomic.Int64
}

func (s *nonsense) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	s.asked.Add(1)
	g, err := s.Store.Acquire(ctx, q)
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		s.answer(held)
	}
	return g, err
}

// A third-party store may answer inconsistently. That does not make the Client ask all the
// time.
func TestOddRefusals(t *testing.T) {
	for name, answer := range map[string]func(*holdfast.HeldError){
		"a negative position": func(e *holdfast.HeldError) { e.Position = -7 },
		"a large position":    func(e *holdfast.HeldError) { e.Position = int(^uint(0) >> 1) },
		"nearly for ever":     func(e *holdfast.HeldError) { e.RetryAfter = holdfast.Forever - 1 },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			h := lock(t, newClient(t, store, nil), "r", nil)
			s := &nonsense{Store: store, answer: answer}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := newClient(t, s, nil).Lock(ctx, "r", &holdfast.LockOptions{Fair: true})
			mustBeHeld(t, err)
			if n := s.asked.Load(); n > 100 {
				t.Errorf("%d acquires in 20 s", n)
			}
			unlock(t, h)
		})
	}
}

// zeroHint is a store whose RetryAfter is always 0.
type zeroHint struct{ driver.Store }

func (s zeroHint) Acquire(ctx context.Context, r driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	var held *driver.HeldError
	if errors.As(err, &held) {
		held.RetryAfter = 0
	}
	return g, err
}

func TestHintOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, zeroHint{memlock.New(nil)})
		c := newClient(t, f, nil)
		lock(t, c, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "r", nil)
		mustBeHeld(t, err)
		if n := f.Calls(drivertest.Acquire); n > 150 {
			t.Errorf("%d acquires in 30 s", n)
		}
	})
}
