package httplock

import (
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
	mu sync.Mutex
	// recent are those that were acquired or renewed last. Once there are mostOwn, they become
	// the earlier ones, and those before them are forgotten.
	recent, earlier map[refKey]driver.HoldRef
}

type refKey struct{ resource, ref string }

// mostOwn is how many of the last ones are known at least. There may be twice as many.
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
	switch old, known := o.find(key); {
	case known && old.HoldID != h.HoldID:
		h = driver.HoldRef{} // the key is that of two holds: so it is neither
	case known && h.Token == 0:
		h.Token = old.Token
	}
	if o.recent == nil || len(o.recent) >= mostOwn {
		o.recent, o.earlier = make(map[refKey]driver.HoldRef), o.recent
	}
	o.recent[key] = h
}

// find returns the hold of the key. o.mu is held.
func (o *ownHolds) find(key refKey) (driver.HoldRef, bool) {
	h, known := o.recent[key]
	if !known {
		h, known = o.earlier[key]
	}
	return h, known
}

// remove removes a hold that has ended.
func (o *ownHolds) remove(h driver.HoldRef) {
	key := keyOf(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	if own, _ := o.find(key); own.HoldID == h.HoldID {
		delete(o.recent, key)
		delete(o.earlier, key)
	}
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
	if h, known := o.find(refKey{s.Resource, w.Ref}); known {
		s.HoldID, s.LockID, s.Token = h.HoldID, h.LockID, h.Token
	}
	return s
}
