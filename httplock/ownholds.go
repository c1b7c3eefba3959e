package httplock

import (
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// ownHolds are the holds that the store has acquired or renewed. A server whose callers
// have no names shows nobody IDs, not even of the caller's own holds. But it shows the
// ref of each hold, a hash of the hold ID, by which the store recognizes its own holds.
// Renewals count, too, for holds that another program has acquired.
//
// A ref has 32 bits, so two holds of one resource have the same ref once in 2^32. The
// zero value is ready to use.
type ownHolds struct {
	mu    sync.Mutex
	holds map[refKey]driver.HoldRef
}

type refKey struct{ resource, ref string }

// keptOwn is the largest number of holds that are known. For one more, any other is
// forgotten until its next renewal.
const keptOwn = 20_000

func keyOf(h driver.HoldRef) refKey { return refKey{h.Resource, wire.RefOf(h.HoldID)} }

// add adds a hold of the caller by its full ref; the token may be unknown.
func (o *ownHolds) add(h driver.HoldRef) {
	if h.HoldID.IsZero() {
		return
	}
	key := keyOf(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	old, known := o.holds[key]
	switch {
	case known && old.HoldID != h.HoldID:
		h = driver.HoldRef{} // two holds have this key, so it identifies neither
	case known && h.Token == 0:
		h.Token = old.Token
	}
	if o.holds == nil {
		o.holds = make(map[refKey]driver.HoldRef)
	}
	if !known && len(o.holds) == keptOwn {
		for other := range o.holds {
			delete(o.holds, other)
			break
		}
	}
	o.holds[key] = h
}

// remove removes an ended hold.
func (o *ownHolds) remove(h driver.HoldRef) {
	key := keyOf(h)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holds[key].HoldID == h.HoldID {
		delete(o.holds, key)
	}
}

// status returns the hold of an answer. If it is one of the own holds, status adds the
// IDs and the token that the server has left out.
func (o *ownHolds) status(w wire.Hold) driver.Status {
	s := w.Driver()
	if !s.HoldID.IsZero() || w.Ref == "" {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if h, known := o.holds[refKey{s.Resource, w.Ref}]; known {
		s.HoldID, s.LockID, s.Token = h.HoldID, h.LockID, h.Token
	}
	return s
}
