package httplock

import (
	"container/list"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// ownHolds are the holds that the store has acquired or renewed. A server shows callers without
// names no IDs, not even of their own holds. But it shows the ref of each, a hash of the hold
// ID, by which the store finds its own ones. Renewals count too, for holds that another program
// has acquired.
//
// A ref has 32 bits, so of two holds of one resource it is the same once in 2^32. The zero value
// is ready.
type ownHolds struct {
	mu    sync.Mutex
	byRef map[refKey]*list.Element
	order list.List // of *ownHold; who was acquired or renewed last is the last
}

type refKey struct{ resource, ref string }

type ownHold struct {
	key refKey
	// hold has no hold ID if the key is that of two holds: then it is neither.
	hold driver.HoldRef
}

// mostOwn is how many they are at most.
const mostOwn = 10_000

func keyOf(h driver.HoldRef) refKey { return refKey{h.Resource, wire.RefOf(h.HoldID)} }

// add adds a hold that is the caller's, by its full ref; the token may be unknown.
func (o *ownHolds) add(h driver.HoldRef) {
	if h.HoldID.IsZero() {
		return
	}
	key := keyOf(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.byRef[key]; e != nil {
		o.order.MoveToBack(e)
		old := e.Value.(*ownHold)
		switch {
		case old.hold.HoldID != h.HoldID:
			old.hold = driver.HoldRef{}
		case h.Token != 0:
			old.hold.Token = h.Token
		}
		return
	}
	if o.byRef == nil {
		o.byRef = make(map[refKey]*list.Element)
	}
	o.byRef[key] = o.order.PushBack(&ownHold{key, h})
	if o.order.Len() > mostOwn {
		o.drop(o.order.Front())
	}
}

// remove removes a hold that has ended.
func (o *ownHolds) remove(h driver.HoldRef) {
	key := keyOf(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.byRef[key]; e != nil && e.Value.(*ownHold).hold.HoldID == h.HoldID {
		o.drop(e)
	}
}

// drop removes an entry. o.mu is held.
func (o *ownHolds) drop(e *list.Element) {
	o.order.Remove(e)
	delete(o.byRef, e.Value.(*ownHold).key)
}

// status returns the hold of an answer, with the IDs and the token that the server has left
// out if it is one of these.
func (o *ownHolds) status(w wire.Hold) driver.Status {
	s := w.Driver()
	if !s.HoldID.IsZero() || w.Ref == "" {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.byRef[refKey{s.Resource, w.Ref}]; e != nil {
		h := e.Value.(*ownHold).hold
		s.HoldID, s.LockID, s.Token = h.HoldID, h.LockID, h.Token
	}
	return s
}
