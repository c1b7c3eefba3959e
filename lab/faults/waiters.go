package faults

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

var waiters = []subtest{
	{"S28_release_before_subscription", releaseBeforeSubscription},
	{"S29_stream_cut", streamCut},
}

// A release between the refusal and the subscription is noticed by the attempt that follows the
// subscription.
func releaseBeforeSubscription(b *bench) {
	if !b.near.Traits().Notifies {
		b.Skip("the store has no wake-ups")
	}
	h := b.lock(b.nearClient(), "r", &holdfast.LockOptions{TTL: time.Hour})
	o := observe(b.open(b.Far))
	o.onWatch = func() { b.unlock(h) }
	c := b.client(o, nil)
	o.acquires.Store(0)
	g := wait(b, "the release is noticed", acquireInBackground(func() (*holdfast.Hold, error) { return c.Lock(b.Context(), "r", nil) }))
	if g.err != nil {
		b.Fatal(g.err)
	}
	if n := o.acquires.Load(); n != 2 {
		b.Errorf("granted by try %d, want the second", n)
	}
}

// However the stream of wake-ups fails, waiters get a released lock.
func streamCut(b *bench) {
	if !b.near.Traits().Notifies {
		b.Skip("the store has no wake-ups")
	}
	far := b.open(b.Far)
	holder := b.nearClient()
	for name, disturb := range map[string]struct{ before, after func() }{
		"well":    {func() {}, func() {}},
		"cut":     {b.Network.Cut, func() {}},
		"silence": {func() { b.Network.Set(proxy.Silence) }, func() { b.Network.Set(proxy.Fault{}) }},
		"refused": {b.Network.Refuse, b.Network.Accept},
	} {
		h := b.lock(holder, name, &holdfast.LockOptions{TTL: time.Hour})
		o := observe(far)
		c := b.client(o, nil)
		got := acquireInBackground(func() (*holdfast.Hold, error) { return c.Lock(b.Context(), name, nil) })
		wait(b, "somebody watches", o.watched)
		disturb.before()
		b.unlock(h)
		disturb.after()
		g := wait(b, "the release is noticed: "+name, got)
		if g.err != nil {
			b.Fatal(g.err)
		}
		b.unlock(g.hold)
	}
}
