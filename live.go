package holdfast

import (
	"cmp"
	"slices"
	"time"
)

// LiveHold is a hold of a Client at the time of a call of Admin.Live.
type LiveHold struct {
	Hold *Hold
	// TTL is the TTL of the last grant or renewal.
	TTL time.Duration
	// Left is the time until the hold counts as lost if it is not renewed, or Forever.
	Left time.Duration
	// KeptAlive reports whether the Client renews the hold.
	KeptAlive bool
}

// Live returns the present holds of this Client, in the order in which they expire. It sends
// nothing, so it works during an outage.
func (a *Admin) Live() []LiveHold {
	var live []LiveHold
	for _, l := range a.client.leases.All() {
		live = append(live, LiveHold{Hold: holdOf(l.Lease), TTL: l.TTL, Left: l.Left, KeptAlive: l.Keep})
	}
	slices.SortFunc(live, func(a, b LiveHold) int { return cmp.Compare(a.Left, b.Left) })
	return live
}

// Waiting returns the calls of Lock and RLock of this Client that are waiting, the oldest
// first. It sends nothing.
func (a *Admin) Waiting() []WaitInfo {
	var all []WaitInfo
	for _, w := range a.client.lines.Waiting() {
		all = append(all, w.Data.(*acquirer).waitInfo(w.Since))
	}
	slices.SortFunc(all, func(a, b WaitInfo) int { return a.Start.Compare(b.Start) })
	return all
}
