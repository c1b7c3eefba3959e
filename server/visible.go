package server

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// sight is how much a caller sees of a hold or a place.
type sight uint8

const (
	outline   sight = iota // its mode and the time left
	described              // also who has it and why, but no ID
	whole                  // all of it
)

// sightOf returns what the caller sees of a hold of the resource by the lock ID. Callers
// without a name have no holds of their own: they see the holds by the lock ID that the
// request names.
func (x *exchange) sightOf(resource, lockID, named string) sight {
	c := x.caller
	look, lock := c.May(access.Look, resource), c.May(access.Lock, resource)
	switch {
	case c.May(access.Force, resource), lock && x.isOwn(lockID), (lock || look) && c.Name() == "" && named != "" && lockID == named:
		return whole
	case look:
		return described
	}
	return outline
}

// hold returns the hold as the caller may see it.
func (x *exchange) hold(s driver.Status, named string) wire.Hold {
	h := wire.HoldOf(s)
	switch x.sightOf(s.Resource, s.LockID, named) {
	case whole:
		h.LockID = x.shownID(h.LockID)
		return h
	case described:
		h.LockID, h.HoldID, h.Token = "", driver.HoldID{}, 0
		return h
	}
	return wire.Hold{Resource: h.Resource, Mode: h.Mode, TTLMs: h.TTLMs}
}

// waiter returns the place as the caller may see it.
func (x *exchange) waiter(p driver.Place, named string) wire.Waiter {
	w := wire.WaiterOf(p)
	switch x.sightOf(p.Resource, p.LockID, named) {
	case whole:
		w.LockID = x.shownID(w.LockID)
		return w
	case described:
		w.LockID = ""
		return w
	}
	return wire.Waiter{Resource: w.Resource, Mode: w.Mode, Fair: w.Fair, Before: w.Before, LeftMs: w.LeftMs}
}

// heldRefusal returns the refusal as the caller may see it. named is the lock ID of its
// request in the store.
func (x *exchange) heldRefusal(e *driver.HeldError, named string) wire.Refusal {
	r := wire.HeldRefusal(e)
	for i := range r.Holders {
		r.Holders[i] = x.hold(e.Holders[i], named)
	}
	for i := range r.Ahead {
		r.Ahead[i] = x.waiter(e.Ahead[i], named)
	}
	r.Detail = why(e, r.Holders)
	return r
}

// why says for people why the resource is held, with what they may see of the holders.
func why(e *driver.HeldError, holders []wire.Hold) string {
	text := fmt.Sprintf("%q is held", e.Resource)
	switch {
	case e.BySelf:
		text += " by the same lock ID"
	case e.OnlyAhead():
		text = fmt.Sprintf("others wait for %q first", e.Resource)
	case len(holders) > 0 && holders[0].Owner != "":
		by := driver.Status{Details: driver.Details{Owner: holders[0].Owner, Host: holders[0].Host}}
		text += " by " + by.Holder()
		if n := len(e.Holders); n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
	}
	if e.LimitDiffers {
		text += " with another limit than this request has"
	}
	return text
}
