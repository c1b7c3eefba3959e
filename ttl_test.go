package holdfast_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestS21_ttls(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		ttl, lives, left time.Duration // left: for the holder, without the margin
	}{
		{0, 30 * time.Second, 28125 * time.Millisecond},
		{500 * time.Millisecond, 500 * time.Millisecond, 375 * time.Millisecond},
		{500*time.Millisecond + 999*time.Microsecond, 500 * time.Millisecond, 375 * time.Millisecond},
		{time.Second, time.Second, 750 * time.Millisecond},
		{4 * time.Second, 4 * time.Second, 3750 * time.Millisecond},
		{time.Minute, time.Minute, 56250 * time.Millisecond},
		{year, year, year - 5*time.Second},
		{holdfast.MaxTTL, holdfast.MaxTTL, holdfast.MaxTTL - 5*time.Second},
		{holdfast.Forever, holdfast.Forever, holdfast.Forever},
	} {
		inBubble(t, test.ttl.String(), func(t *testing.T) {
			store := memlock.New(nil)
			c := newClient(t, store, nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: test.ttl})
			if got := holdsIn(t, store, "r")[0].Left; got != test.lives {
				t.Errorf("it lives for %v, want %v", got, test.lives)
			}
			if h.Left() != test.left {
				t.Errorf("the holder has %v left, want %v", h.Left(), test.left)
			}
			if err := h.Renew(t.Context(), 0); err != nil || h.Left() != test.left {
				t.Errorf("renewed, the holder has %v left, want %v (error %v)", h.Left(), test.left, err)
			}
			unlock(t, h)
		})
	}
	for _, ttl := range []time.Duration{
		time.Millisecond, 499999 * time.Microsecond, -1, -time.Hour, holdfast.MaxTTL + time.Millisecond, holdfast.Forever - 1,
	} {
		inBubble(t, ttl.String(), func(t *testing.T) {
			f := faulty(t, memlock.New(nil))
			c, d := newClient(t, f, nil), newClient(t, f, &holdfast.Options{TTL: ttl})
			h := lock(t, c, "held", &holdfast.LockOptions{LockID: "id"})
			for name, err := range map[string]error{
				"Lock":       second(c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
				"TryRLock":   second(c.TryRLock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
				"by default": second(d.Lock(t.Context(), "r", nil)),
				"Renew":      h.Renew(t.Context(), ttl),
				"RenewID":    second(c.Admin().RenewID(t.Context(), "id", ttl)),
			} {
				if !errors.Is(err, holdfast.ErrInvalid) {
					t.Errorf("%s: got error %v, want ErrInvalid", name, err)
				}
			}
			if n := f.Calls(drivertest.Acquire) + f.Calls(drivertest.Renew); n != 1 {
				t.Errorf("%d calls were sent, want that of the lock", n)
			}
		})
	}
}

func TestMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, &holdfast.Options{Margin: 2 * time.Second})
		if h := lock(t, c, "a", nil); h.Left() != 28*time.Second {
			t.Errorf("%v left", h.Left())
		}
		if h := lock(t, c, "b", &holdfast.LockOptions{TTL: 4 * time.Second}); h.Left() != 2*time.Second {
			t.Errorf("%v left", h.Left())
		}
		for name, opts := range map[string]*holdfast.Options{
			"negative":               {Margin: -1},
			"too small":              {Margin: 50*time.Millisecond - 1},
			"over half the TTL":      {Margin: 15*time.Second + 1},
			"over half of Forever's": {Margin: time.Minute, TTL: holdfast.Forever},
		} {
			if _, err := newClient(t, store, opts).TryLock(t.Context(), "c", nil); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: got error %v, want ErrInvalid", name, err)
			}
		}
	})
}

// A hold without an end begins with a finite TTL, and is checked every 30 s.
func TestS21_forever(t *testing.T) {
	forever := &holdfast.LockOptions{TTL: holdfast.Forever}
	inBubble(t, "is checked", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, c, "r", forever)
		time.Sleep(time.Hour)
		if n := f.Calls(drivertest.Renew); n < 110 || n > 170 {
			t.Errorf("the hold was renewed %d times in an hour", n)
		}
		if _, err := d.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		if took := mustEnd(t, h, time.Hour, holdfast.ErrForced); took > 31*time.Second {
			t.Errorf("the holder noticed after %v", took)
		}
	})
	inBubble(t, "does not end in an outage", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: c.Op == drivertest.Renew && c.N > 1}
		})
		c := newClient(t, f, nil)
		h := lock(t, c, "r", forever)
		time.Sleep(10 * time.Hour)
		alive(t, h)
		mustBeHeldBy(t, store, h)
	})
	inBubble(t, "becomes so later", func(t *testing.T) {
		// The renewal to Forever has no answer: the Client repeats it, and until then the
		// hold has an end.
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3, 4))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", forever)
		if left := holdsIn(t, store, "r")[0].Left; left > 30*time.Second {
			t.Fatalf("%v left in the store", left)
		}
		if h.Left() > 30*time.Second {
			t.Errorf("the holder has %v left", h.Left())
		}
		time.Sleep(time.Minute)
		alive(t, h)
		if h.Left() != holdfast.Forever || holdsIn(t, store, "r")[0].Left != holdfast.Forever {
			t.Errorf("%v left, %v in the store", h.Left(), holdsIn(t, store, "r")[0].Left)
		}
	})
	inBubble(t, "never becomes so", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, c, "r", forever)
		mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
		lock(t, d, "r", nil)
	})
	inBubble(t, "without a keep-alive", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3))
		c := newClient(t, f, nil)
		o := &holdfast.LockOptions{TTL: holdfast.Forever, NoKeepAlive: true}
		if _, err := c.Lock(t.Context(), "r", o); !errors.Is(err, drivertest.ErrFault) {
			t.Fatalf("got error %v", err)
		}
		mustBeFree(t, store, "r")
		h := lock(t, c, "r", o)
		calls := f.Calls(drivertest.Renew)
		time.Sleep(10 * time.Hour)
		alive(t, h)
		if f.Calls(drivertest.Renew) != calls {
			t.Error("the hold was renewed despite NoKeepAlive")
		}
	})
}
