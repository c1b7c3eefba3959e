package linear

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// place is a waiter's place in the queue that may still be there.
type place struct {
	id      driver.PlaceID
	lockID  string
	mode    driver.Mode
	limit   int
	fair    bool
	soonest time.Duration // it ends between these times
	latest  time.Duration
}

func (p place) mayLive(r request) bool  { return r.from < p.latest }
func (p place) mustLive(r request) bool { return r.to < p.soonest }

// is reports whether this is the place of the request, for the same kind of hold.
func (p place) is(r request) bool {
	return p.id == r.Place && p.mode == r.Mode && p.limit == r.Limit && p.fair == r.Fair
}

// kept returns how long the store keeps the place of the request.
func (r request) kept() time.Duration { return driver.AcquireRequest{Fair: r.Fair}.PlaceTTL() }

func (p place) excludes(r request) bool {
	return p.lockID == r.Ref.LockID || p.mode == driver.Exclusive || r.Mode == driver.Exclusive || p.limit != r.Limit
}

// ahead reports whether the places ahead of the request allow a grant, and how many shared ones
// among them surely live. If the request's own place may live, ahead assumes that it does,
// because that explains a grant best.
func (s state) ahead(r request) (beside int, ok bool) {
	for _, p := range s.places {
		switch {
		case p.is(r) && p.mayLive(r):
			return beside, true
		case p.id == r.Place || !p.fair || !p.mustLive(r):
		case p.excludes(r):
			return 0, false
		default:
			beside++
		}
	}
	return beside, true
}

// mayBeBehind reports whether a place that excludes the request may be ahead of it, and how
// many other places may be. If the request's own place may be gone, all places are ahead.
func (s state) mayBeBehind(r request) (excluded bool, beside int) {
	for _, p := range s.places {
		switch {
		case p.is(r) && p.mustLive(r):
			return excluded, beside
		case p.id == r.Place || !p.fair || !p.mayLive(r):
		case p.excludes(r):
			excluded = true
		default:
			beside++
		}
	}
	return excluded, beside
}

// queued returns the possible states after the request was refused and has its place: its
// previous place, or a new one at the end. A store renews a place only after a part of its time
// has passed, so the place may still end when it would have ended before.
func (s state) queued(r request) (next []state) {
	if r.Place.IsZero() {
		return nil
	}
	i := slices.IndexFunc(s.places, func(p place) bool { return p.is(r) })
	if i >= 0 && s.places[i].mayLive(r) && s.hasPosition(r, s.places[:i]) {
		p := s.places[i]
		p.lockID, p.latest = r.Ref.LockID, plus(r.to, r.kept())
		kept := s
		kept.places = slices.Clone(s.places)
		kept.places[i] = p
		next = append(next, kept)
	}
	if i >= 0 && s.places[i].mustLive(r) {
		return next
	}
	others := s.without(r.Place)
	if !s.hasPosition(r, others) {
		return next
	}
	s.places = append(slices.Clip(others), place{
		id: r.Place, lockID: r.Ref.LockID, mode: r.Mode, limit: r.Limit, fair: r.Fair,
		soonest: plus(r.from, r.kept()), latest: plus(r.to, r.kept()),
	})
	return append(next, s)
}

// hasPosition reports whether the store can have reported this position to the request, with
// these places ahead of it. A request without an answer fits any.
func (s state) hasPosition(r request, before []place) bool {
	if r.Outcome == drivertest.Unknown {
		return true
	}
	least, most := 0, 0
	for _, p := range before {
		if p.fair && p.mayLive(r) {
			most++
		}
		if p.fair && p.mustLive(r) {
			least++
		}
	}
	return least <= r.Position && r.Position <= most
}

func (s state) without(id driver.PlaceID) []place {
	i := slices.IndexFunc(s.places, func(p place) bool { return p.id == id })
	if id.IsZero() || i < 0 {
		return s.places
	}
	return slices.Delete(slices.Clone(s.places), i, i+1)
}
