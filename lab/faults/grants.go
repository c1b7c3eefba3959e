package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

var grants = []subtest{
	{"S05_reply_lost", replyLost},
	{"S08_too_slow_for_the_TTL", tooSlow},
	{"S08_TTL_ends_meanwhile", holdEndsBeforeGrant},
	{"S12_cancelled_in_mid_acquire", cancelled},
	{"S24_first_holders_at_once", firstHolders},
	{"S25_permit_of_a_lost_holder", lostPermit},
}

// repliesLost are faults that lose the reply after the server has acted.
var repliesLost = map[string]proxy.Fault{"cut": proxy.CutReplies, "vanish": proxy.VanishReplies}

// subtests runs a test for each fault.
func (b *bench) subtests(faults map[string]proxy.Fault, test func(b *bench, f proxy.Fault)) {
	for name, f := range faults {
		b.parallel(name, func(b *bench) { test(b, f) })
	}
}

// The server grants, and the answer is lost: the repeat returns the same grant.
func replyLost(b *bench) {
	b.subtests(repliesLost, func(b *bench, f proxy.Fault) {
		c, r := b.farClient(), b.Name()
		b.Network.Set(f)
		got := acquireInBackground(func() (*holdfast.Hold, error) { return c.Lock(b.Context(), r, nil) })
		b.eventually("the server has granted", func() bool { return !b.free(r) })
		first := b.holder(r)
		b.Network.Set(proxy.Fault{})
		g := wait(b, "the repeat is granted", got)
		if g.err != nil {
			b.Fatal(g.err)
		}
		if g.hold.ID() != first.HoldID || g.hold.Token() != first.Token {
			b.Errorf("granted hold %v with token %d, first it was %+v", g.hold.ID(), g.hold.Token(), first)
		}
		b.unlock(g.hold)
		if !b.free(r) {
			b.Errorf("left behind: %+v", b.holder(r))
		}
	})
}

// If every grant arrives after its hold has ended, Lock does not succeed, and no hold remains.
func tooSlow(b *bench) {
	c := b.farClient()
	// Connecting and preparing statements would take longer than an attempt may.
	b.unlock(b.lock(c, "warm", nil))
	// Both directions together take longer than the TTL less its margin, and leave a busy
	// server more than half of an attempt. If it is slower, there is no answer: try again.
	b.Network.Set(proxy.Slow(200 * time.Millisecond))
	b.eventually("all grants come too late", func() bool {
		h, err := c.TryLock(b.Context(), "r", &holdfast.LockOptions{TTL: holdfast.MinTTL})
		switch {
		case errors.Is(err, holdfast.ErrTTLTooShort):
			return true
		case errors.Is(err, holdfast.ErrHeld):
			return false // by the hold of an earlier attempt
		case err == nil:
			b.Fatalf("granted hold %v", h.ID())
		}
		MustBeUnknown(b.T, err)
		return false
	})
	b.eventually("nothing is left behind", func() bool { return b.free("r") })
}

// The answer is lost until the hold that it reports has ended: Lock finally returns a live
// hold.
func holdEndsBeforeGrant(b *bench) {
	b.subtests(repliesLost, func(b *bench, f proxy.Fault) {
		c, r := b.farClient(), b.Name()
		b.Network.Set(f)
		got := acquireInBackground(func() (*holdfast.Hold, error) {
			for {
				h, err := c.Lock(b.Context(), r, &holdfast.LockOptions{TTL: 3 * time.Second})
				if err == nil {
					return h, nil
				}
				MustBeUnknown(b.T, err)
			}
		})
		b.eventually("the server has granted", func() bool { return !b.free(r) })
		first := b.holder(r)
		b.eventually("the hold has ended", func() bool { return b.holder(r).Token != first.Token })
		b.Network.Set(proxy.Fault{})
		g := wait(b, "a hold is granted", got)
		if g.err != nil {
			b.Fatal(g.err)
		}
		if g.hold.Token() <= first.Token {
			b.Errorf("granted token %d, that of a hold which has ended is %d", g.hold.Token(), first.Token)
		}
		if st := b.holder(r); g.hold.Context().Err() == nil && (st.HoldID != g.hold.ID() || st.Token != g.hold.Token()) {
			b.Errorf("the hold with token %d is alive, the server has %+v", g.hold.Token(), st)
		}
	})
}

// An acquire that is cancelled while its answer is in flight leaves no hold.
func cancelled(b *bench) {
	b.subtests(repliesLost, func(b *bench, f proxy.Fault) {
		c, r := b.farClient(), b.Name()
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		b.Network.Set(f)
		got := acquireInBackground(func() (*holdfast.Hold, error) {
			return c.Lock(ctx, r, &holdfast.LockOptions{TTL: time.Hour})
		})
		b.eventually("the server has granted", func() bool { return !b.free(r) })
		cancel()
		if g := wait(b, "Lock returns", got); !errors.Is(g.err, context.Canceled) || errors.Is(g.err, holdfast.ErrHeld) {
			b.Errorf("error %v, want only the error of the context", g.err)
		}
		b.Network.Set(proxy.Fault{})
		b.eventually("nothing is left behind", func() bool { return b.free(r) })
	})
}

// The first acquirers of a new resource arrive at once, on connections of their own: either all
// compatible ones are granted, or one exclusive one.
func firstHolders(b *bench) {
	if !b.near.Traits().Shared {
		b.Skip("the store has no shared holds")
	}
	const acquirers, rounds = 4, 150
	var clients []*holdfast.Client
	for range acquirers {
		clients = append(clients, b.nearClient())
	}
	for round := range rounds {
		exclusive := round % (acquirers + 1) // how many of the acquirers
		start := make(chan struct{})
		var all []<-chan granted
		for i, c := range clients {
			lock := c.TryRLock
			if i < exclusive {
				lock = c.TryLock
			}
			all = append(all, acquireInBackground(func() (*holdfast.Hold, error) {
				<-start
				return lock(b.Context(), fmt.Sprint("new ", round), nil)
			}))
		}
		close(start)
		var holds []*holdfast.Hold
		alone := false
		for _, ch := range all {
			g := wait(b, "all have an answer", ch)
			switch {
			case g.err == nil:
				holds = append(holds, g.hold)
				alone = alone || g.hold.Mode() == holdfast.Exclusive
			case !errors.Is(g.err, holdfast.ErrHeld):
				b.Fatalf("round %d: %v", round, g.err)
			}
		}
		switch {
		case len(holds) == 0:
			b.Fatalf("round %d, %d exclusive: all were refused", round, exclusive)
		case alone && len(holds) != 1, exclusive == 0 && len(holds) != acquirers:
			b.Fatalf("round %d, %d exclusive: %d were granted", round, exclusive, len(holds))
		}
		for _, h := range holds {
			b.unlock(h)
		}
	}
}

// The permits of holders that are cut off become free when they end, without a sweep. Acquirers
// with another limit are refused with LimitDiffers.
func lostPermit(b *bench) {
	if !b.near.Traits().Shared {
		b.Skip("the store has no shared holds")
	}
	permit := func(c *holdfast.Client, limit int) (*holdfast.Hold, error) {
		return c.TryRLock(b.Context(), "r", &holdfast.LockOptions{TTL: 3 * time.Second, Limit: limit})
	}
	far, near := b.farClient(), b.nearClient()
	var lost []*holdfast.Hold
	for range 2 {
		h, err := permit(far, 2)
		if err != nil {
			b.Fatal(err)
		}
		lost = append(lost, h)
	}
	if _, err := permit(near, 2); !errors.Is(err, holdfast.ErrHeld) {
		b.Fatalf("error %v for the third of two permits", err)
	}
	var differs *holdfast.HeldError
	if _, err := permit(near, 3); !errors.As(err, &differs) || !differs.LimitDiffers {
		b.Fatalf("error %v for the third of three permits where the others have two", err)
	}
	b.Network.Set(proxy.Silence)
	g := wait(b, "a permit is free", acquireInBackground(func() (*holdfast.Hold, error) {
		return near.RLock(b.Context(), "r", &holdfast.LockOptions{Limit: 2})
	}))
	if g.err != nil {
		b.Fatal(g.err)
	}
	ended := false
	for _, h := range lost {
		ended = ended || h.Context().Err() != nil
	}
	if !ended {
		b.Error("a permit was granted again while both its holders took it for theirs")
	}
	b.unlock(g.hold)
}
