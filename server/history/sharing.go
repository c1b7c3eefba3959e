package history

import "github.com/holdfast-go/holdfast/driver"

// sharing are the open holds of a resource for which there is no next yet. There is more than
// one exclusive hold only if the history does not know yet that the others have ended: the one
// with the highest token is here.
type sharing struct {
	exclusive *hold
	shared    map[*hold]bool
}

// share takes in an open hold, and notes of those before it that it excludes when it began.
func (hs *holds) share(h *hold) {
	s := hs.sharing[h.Resource]
	if s == nil {
		s = new(sharing)
		hs.sharing[h.Resource] = s
	}
	at := h.began
	if at.IsZero() {
		at = h.At // the latest time at which it can have begun
	}
	if s.exclusive != nil && s.exclusive.Token < h.Token {
		s.exclusive.next, s.exclusive = at, nil
	}
	if h.Mode == driver.Shared {
		if s.shared == nil {
			s.shared = make(map[*hold]bool)
		}
		s.shared[h] = true
		return
	}
	for other := range s.shared {
		if other.Token < h.Token {
			other.next = at
			delete(s.shared, other)
		}
	}
	if s.exclusive == nil {
		s.exclusive = h
	}
}

// unshare takes out a hold.
func (hs *holds) unshare(h *hold) {
	s := hs.sharing[h.Resource]
	if s == nil {
		return
	}
	if s.exclusive == h {
		s.exclusive = nil
	}
	delete(s.shared, h)
	if s.exclusive == nil && len(s.shared) == 0 {
		delete(hs.sharing, h.Resource)
	}
}
