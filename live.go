package holdfast

import (
	"cmp"
	"slices"
	"time"
)

// LiveHold is a hold of a Client at one moment.
type LiveHold struct {
	Hold *Hold
	// TTL is that of the last grant or renewal.
	TTL time.Duration
	// Left is the time until the hold counts as lost unless it is renewed, or Forever.
	Left time.Duration
	// KeptAlive: the Client renews it.
	KeptAlive bool
}

// Live returns the holds that this Client has now, in the order in which they end. It
// sends nothing, so it works during an outage.
func (a *Admin) Live() []LiveHold {
	c := a.client
	c.mu.Lock()
	now := c.clock()
	live := make([]LiveHold, 0, len(c.holds))
	for _, h := range c.holds {
		live = append(live, LiveHold{Hold: h, TTL: h.ttl, Left: h.left(now), KeptAlive: h.keep})
	}
	c.mu.Unlock()
	slices.SortFunc(live, func(a, b LiveHold) int { return cmp.Compare(a.Left, b.Left) })
	return live
}

// Waiting returns the calls of Lock and RLock of this Client that wait now, in the order
// in which they began to. It sends nothing.
func (a *Admin) Waiting() []WaitInfo {
	c := a.client
	var all []WaitInfo
	c.mu.Lock()
	for _, l := range c.queues {
		for a := l.first; a != nil; a = a.next {
			if a.waits {
				all = append(all, a.waitInfo())
			}
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b WaitInfo) int { return a.Start.Compare(b.Start) })
	return all
}
