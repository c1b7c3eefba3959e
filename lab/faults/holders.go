package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

var holders = []subtest{
	{"S04_release_repeated", releaseRepeated},
	{"S06_renewal_reply_lost", renewalReplyLost},
	{"S13_unlock_with_dead_context", deadContext},
	{"S20_renewals_hang", renewalsHang},
	{"S32_sweep_races_renewals", sweepRacesRenewals},
	{"S38_forced_release", forcedRelease},
}

// A release whose answer was lost is repeated after the same lock ID has acquired the resource
// again, through another Client.
func releaseRepeated(b *bench) {
	b.subtests(repliesLost, func(b *bench, f proxy.Fault) {
		c, other, r := b.farClient(), b.nearClient(), b.Name()
		me := &holdfast.LockOptions{LockID: "me"}
		h := b.lock(c, r, me)
		b.Network.Set(f)
		released := make(chan error, 1)
		go func() { released <- h.Unlock(b.Context()) }()
		b.eventually("the server has released", func() bool { return b.free(r) })
		next := b.lock(other, r, me)
		b.Network.Set(proxy.Fault{})
		if err := wait(b, "Unlock returns", released); err != nil {
			b.Errorf("Unlock: %v", err)
		}
		b.requireHold(next)
		b.unlock(next)
	})
}

// The answer to a renewal is lost: the hold goes on.
func renewalReplyLost(b *bench) {
	b.subtests(repliesLost, func(b *bench, f proxy.Fault) {
		o, r := observe(b.open(b.Far)), b.Name()
		// Set the fault at the first renewal, when the connection is open.
		o.onRenew = sync.OnceFunc(func() { b.Network.Set(f) })
		c := b.client(o, nil)
		h := b.lock(c, r, &holdfast.LockOptions{TTL: 15 * time.Second})
		b.eventually("the server has renewed", func() bool { return !b.holder(r).Renewed.IsZero() })
		first := b.holder(r).Renewed
		b.Network.Set(proxy.Fault{})
		b.eventually("the holder is told of a renewal", func() bool {
			return b.holder(r).Renewed.After(first) && h.Left() > 12*time.Second
		})
		if err := context.Cause(h.Context()); err != nil {
			b.Errorf("the hold has ended: %v", err)
		}
		b.requireHold(h)
		b.unlock(h)
	})
}

// Neither a context that has ended nor a broken connection keeps a lock from being released.
func deadContext(b *bench) {
	c := b.farClient()
	dead, cancel := context.WithCancel(b.Context())
	cancel()
	for name, disturb := range map[string]func(){
		"well": func() {}, "cut": b.Network.Cut, "slow": func() { b.Network.Set(proxy.Slow(50 * time.Millisecond)) },
	} {
		h := b.lock(c, name, &holdfast.LockOptions{TTL: time.Hour})
		disturb()
		if err := h.Unlock(dead); err != nil {
			b.Errorf("%s: %v", name, err)
		}
		b.eventually("it is released: "+name, func() bool { return b.free(name) })
		b.Network.Set(proxy.Fault{})
	}
}

// However renewals fail, the holder is told before the server's clock reaches the end of the
// hold. When the network works again, it does not affect its successor.
func renewalsHang(b *bench) {
	b.subtests(map[string]proxy.Fault{
		"requests vanish": proxy.VanishRequests, "replies vanish": proxy.VanishReplies, "silence": proxy.Silence,
		"requests cut": proxy.CutRequests, "replies cut": proxy.CutReplies,
	}, func(b *bench, f proxy.Fault) {
		// The margin gives this test the time to read the server's clock.
		c := b.client(b.open(b.Far), &holdfast.Options{Margin: 2 * time.Second})
		d, r := b.nearClient(), b.Name()
		h := b.lock(c, r, &holdfast.LockOptions{TTL: 5 * time.Second})
		waiter := acquireInBackground(func() (*holdfast.Hold, error) { return d.Lock(b.Context(), r, nil) })
		b.Network.Set(f)
		wait(b, "the holder knows", h.Context().Done())
		lost, st := time.Now(), b.holder(r)
		if st.HoldID != h.ID() || !st.Live() {
			b.Errorf("the holder knows of its loss, and the server has %+v", st)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrUnreachable) {
			b.Errorf("lost for the reason %v", cause)
		}
		next := wait(b, "another is granted", waiter)
		if next.err != nil {
			b.Fatal(next.err)
		}
		if !next.at.After(lost) {
			b.Errorf("another was granted %v before the holder knew", lost.Sub(next.at))
		}
		b.Network.Set(proxy.Fault{})
		if err := h.Renew(b.Context(), 0); !errors.Is(err, holdfast.ErrLost) {
			b.Errorf("Renew of what is lost: %v", err)
		}
		if err := h.Unlock(b.Context()); !errors.Is(err, holdfast.ErrLost) {
			b.Errorf("Unlock of what is lost: %v", err)
		}
		b.requireHold(next.hold)
		b.unlock(next.hold)
	})
}

// Continuous sweeps take nothing from holders that renew.
func sweepRacesRenewals(b *bench) {
	c := b.nearClient()
	sweeper := b.open(b.Near)
	var holds []*holdfast.Hold
	for i := range 10 {
		holds = append(holds, b.lock(c, fmt.Sprint(i), &holdfast.LockOptions{TTL: 6 * time.Second}))
	}
	seen := make(map[driver.HoldID]time.Time)
	b.eventually("each is renewed", func() bool {
		if _, err := sweeper.Sweep(b.Context(), driver.SweepRequest{Idle: time.Minute}); err != nil {
			b.Fatal(err)
		}
		for st, err := range b.near.List(b.Context(), driver.Filter{}) {
			if err != nil {
				b.Fatal(err)
			}
			if !st.Renewed.IsZero() {
				seen[st.HoldID] = st.Renewed
			}
		}
		return len(seen) >= len(holds)
	})
	for _, h := range holds {
		if err := context.Cause(h.Context()); err != nil {
			b.Errorf("lost: %v", err)
		}
		b.requireHold(h)
		b.unlock(h)
	}
}

// A holder detects a forced release at its next renewal.
func forcedRelease(b *bench) {
	c, admin := b.farClient(), b.nearClient()
	h := b.lock(c, "r", &holdfast.LockOptions{TTL: 6 * time.Second})
	if _, err := admin.Admin().ForceRelease(b.Context(), "r", h.ID()); err != nil {
		b.Fatal(err)
	}
	b.unlock(b.lock(admin, "r", nil))
	wait(b, "the holder knows", h.Context().Done())
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrForced) {
		b.Errorf("lost for the reason %v, want ErrForced", cause)
	}
}
