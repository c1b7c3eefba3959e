package holdfast

import (
	"container/heap"
	"time"
)

// schedule orders live holds by when something must be done about them. It is a
// container/heap; add, remove and, after each single change, moved keep it in
// order. After several changes only reorder does.
type schedule []*Hold

// due is when the keep-alive must look at the hold: to renew it, or to declare
// it lost.
func (h *Hold) due() time.Duration {
	if h.keep && !h.inFlight {
		return min(h.renewAt, h.deadline)
	}
	return h.deadline
}

// window is how much before its time the hold's renewal may travel along with
// others.
func (h *Hold) window() time.Duration { return leaseOf(h.ttl) / 12 }

// leaseOf returns the TTL that governs how often a hold is renewed. One without
// an end is looked at as often as one of the default TTL would last.
func leaseOf(ttl time.Duration) time.Duration {
	if ttl == Forever {
		return 3 * foreverCheck
	}
	return ttl
}

// foreverCheck is how often the holder of a hold without an end makes sure that
// it still holds.
const foreverCheck = 30 * time.Second

func (s *schedule) add(h *Hold)   { heap.Push(s, h) }
func (s *schedule) moved(h *Hold) { heap.Fix(s, h.index) }
func (s *schedule) reorder()      { heap.Init(s) }
func (s *schedule) remove(h *Hold) {
	if h.index >= 0 {
		heap.Remove(s, h.index)
	}
}

// first returns the hold that is due first, or nil.
func (s schedule) first() *Hold {
	if len(s) == 0 {
		return nil
	}
	return s[0]
}

// Len implements heap.Interface.
func (s schedule) Len() int { return len(s) }

// Less implements heap.Interface.
func (s schedule) Less(i, j int) bool { return s[i].due() < s[j].due() }

// Swap implements heap.Interface.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(h any) {
	hold := h.(*Hold)
	hold.index = len(*s)
	*s = append(*s, hold)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	h.index = -1
	return h
}
