package waitline_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

// A refusal is kept when the store falls silent.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := waitline.New(waitline.Config{
			Scope: storecall.NewScope(clock.New()), Traits: func() driver.Traits { return driver.Traits{} }, Places: 16,
		})
		w := &waitline.Waiter{Resource: "r"}
		ls.Join(w)
		if position, e, _ := w.Heard(); e != nil || position != 0 {
			t.Errorf("before the silence: %v, position %d", e, position)
		}
		e := &driver.HeldError{Resource: "r", Holders: []driver.Status{{LockID: "l"}}, Position: driver.NoPlace}
		w.Refused(e, nil, 0)
		_ = w.Silent(errors.New("no answer"))
		_, got, _ := w.Heard()
		if got == nil || got == e || len(got.Holders) != 1 {
			t.Errorf("%+v", got)
		}
		w.Leave()
		if position, e, _ := w.Heard(); e != nil || position != driver.NoPlace {
			t.Errorf("after the silence: %v, position %d", e, position)
		}
	})
}
