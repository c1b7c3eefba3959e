package waitline

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// A waiter that is not the head asks again within the time that Refused was given, and not at
// all without it.
func TestAskWithin(t *testing.T) {
	for _, within := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ls := New(Config{
				Scope: storecall.NewScope(clock.New()), Traits: func() driver.Traits { return driver.Traits{} },
				Places: 16, Poll: time.Second,
			})
			ls.Join(&Waiter{Resource: "r"})
			w := &Waiter{Resource: "r", AtOnce: true}
			ls.Join(w)
			if _, err := w.Turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Refused(&driver.HeldError{Resource: "r", Position: driver.NoPlace, RetryAfter: driver.Unknown}, nil, within)
			began := time.Now()
			time.AfterFunc(time.Minute, ls.Close)
			_, err := w.Turn(t.Context())
			if took := time.Since(began); within != 0 && (err != nil || took != within) || within == 0 && !errors.Is(err, ErrClosed) {
				t.Errorf("within %v: asked after %v, error %v", within, took, err)
			}
		})
	}
}
