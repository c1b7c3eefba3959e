package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// Renewals that arrive late or out of order do not shorten the hold.
func TestS07a_renewals_out_of_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{NoKeepAlive: true})
		if err := h.Renew(t.Context(), time.Minute); err != nil { // the first attempt is held back
			t.Fatal(err)
		}
		if err := h.Renew(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		left := h.Left()
		close(arrive)
		synctest.Wait()
		if got := holdsIn(t, store, "r")[0].Left; got != time.Hour {
			t.Errorf("the store has %v left, want 1 h", got)
		}
		if h.Left() != left {
			t.Errorf("the holder has %v left, had %v", h.Left(), left)
		}
	})
}

func TestRenew(t *testing.T) {
	inBubble(t, "extends, and sets the TTL of the keep-alive", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		if err := h.Renew(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := time.Hour - 5*time.Second; h.Left() != want {
			t.Errorf("%v left, want %v", h.Left(), want)
		}
		time.Sleep(100 * time.Minute)
		alive(t, h)
		if n := f.Calls(drivertest.Renew); n < 5 || n > 8 {
			t.Errorf("%d renewals in 100 min with a TTL of 1 h", n)
		}
		if left := holdsIn(t, store, "r")[0].Left; left < 40*time.Minute {
			t.Errorf("the store has %v left", left)
		}
	})
	inBubble(t, "never shortens", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		left := h.Left()
		if err := h.Renew(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if h.Left() != left || holdsIn(t, store, "r")[0].Left != 30*time.Second {
			t.Errorf("%v left, in the store %v", h.Left(), holdsIn(t, store, "r")[0].Left)
		}
		time.Sleep(time.Minute)
		alive(t, h)
		if left := holdsIn(t, store, "r")[0].Left; left > time.Second {
			t.Errorf("%v left in the store: later renewals do not use the new TTL", left)
		}
		if n := f.Calls(drivertest.Renew); n < 150 {
			t.Errorf("%d renewals in a minute with a TTL of 1 s", n)
		}
		if err := h.Renew(t.Context(), 0); err != nil || h.Left() > time.Second {
			t.Errorf("Renew(0): %v left, error %v; want the TTL so far", h.Left(), err)
		}
	})
	inBubble(t, "without an answer", func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		began, left := time.Now(), h.Left()
		err := h.Renew(t.Context(), time.Hour)
		if !errors.Is(err, drivertest.ErrFault) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got error %v", err)
		}
		if h.Left() != left-time.Since(began) {
			t.Errorf("%v left, had %v", h.Left(), left)
		}
		time.Sleep(time.Minute)
		alive(t, h)
		if h.Left() > 30*time.Second {
			t.Errorf("%v left: a renewal that failed changed the TTL", h.Left())
		}
	})
	inBubble(t, "ctx ends", func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldRequest: make(chan struct{})}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := h.Renew(ctx, 0)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got error %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Minute)
		alive(t, h)
	})
	inBubble(t, "of an ended hold", func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		unlock(t, h)
		if err := h.Renew(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("after Unlock: %v", err)
		}
		h = lock(t, c, "r", nil)
		if _, err := newClient(t, f, nil).Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var loss *holdfast.LostError
			if err := h.Renew(t.Context(), time.Hour); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrForced) {
				t.Errorf("after a forced release: %v", err)
			}
		}
		if n := f.Calls(drivertest.Renew); n != 1 {
			t.Errorf("%d renewals were sent, want 1", n)
		}
		if h.Context().Err() == nil {
			t.Error("the context has not ended")
		}
	})
}

// Unlock while a renewal is under way: wherever the renewal is, the hold does not come back
// and no loss is reported.
func TestS16_unlock_races_keep_alive(t *testing.T) {
	for name, fault := range map[string]func(release <-chan struct{}) drivertest.Fault{
		"request arrives after the release": func(ch <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldRequest: ch} },
		"reply arrives after the release":   func(ch <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldReply: ch} },
		"at the same moment":                func(<-chan struct{}) drivertest.Fault { return drivertest.Fault{} },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New(nil)
					unlocked := make(chan struct{})
					f := faulty(t, store, on(drivertest.Renew, fault(unlocked), 1))
					c := newClient(t, f, &holdfast.Options{Trace: &holdfast.Trace{
						HoldEnd: func(_ context.Context, info holdfast.HoldInfo) {
							if errors.Is(info.Err, holdfast.ErrLost) {
								t.Errorf("told of a loss: %v", info.Err)
							}
						},
					}})
					h := lock(t, c, "r", nil)
					time.Sleep(10 * time.Second) // until the renewal
					unlock(t, h)
					close(unlocked)
					synctest.Wait()
					if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
						t.Errorf("the context ended with %v", cause)
					}
					mustBeFree(t, store, "r")
					calls := f.Calls(drivertest.Renew)
					time.Sleep(time.Minute)
					mustBeFree(t, store, "r")
					if f.Calls(drivertest.Renew) != calls {
						t.Error("a hold is renewed after its release")
					}
				})
			}
		})
	}
}

// An answer to a renewal has no effect after the hold was released.
func TestRenewalAnsweredAfterUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		answer := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldReply: answer}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		time.Sleep(holdfast.DefaultTTL / 3)
		synctest.Wait()
		if f.Calls(drivertest.Renew) != 1 {
			t.Fatal("no renewal is under way")
		}
		unlock(t, h)
		next := tryLock(t, c, "r", nil)
		close(answer)
		time.Sleep(time.Minute)
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) || h.Left() != 0 {
			t.Errorf("the hold ended with %v and has %v left", cause, h.Left())
		}
		alive(t, next)
		mustBeHeldBy(t, store, next)
	})
}
