package model

import (
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// Place is a waiter in the queue of a resource.
type Place struct {
	ID          driver.PlaceID
	LockID      string
	Mode        driver.Mode
	Limit       int // of a shared request; 0: none
	Owner, Host string
	Since       Time // when it came
	Asked       Time // when the waiter last asked for it
	Until       Time // when it ends if the waiter does not ask again
	Fair        bool // later waiters do not overtake it
}

// live reports whether the waiter has asked recently. A clock that was set back or ahead does
// not make a place last longer.
func (p *Place) live(now Time) bool { return p.Asked <= now && now < p.Until }

func (p *Place) status(resource string, now Time, position int) driver.Place {
	return driver.Place{
		Resource: resource, ID: p.ID, LockID: p.LockID, Mode: p.Mode, Limit: p.Limit, Owner: p.Owner, Host: p.Host,
		Fair: p.Fair, Position: position, Since: p.Since.Std(), Asked: p.Asked.Std(), Seen: now.Std(), Left: p.Until.Until(now),
	}
}

// livePlaces returns the live places. If all are live, the result is the record's own slice.
func livePlaces(places []Place, now Time) []Place {
	dead := func(p Place) bool { return !p.live(now) }
	if !slices.ContainsFunc(places, dead) {
		return places
	}
	kept := slices.DeleteFunc(slices.Clone(places), dead)
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// ahead calls f with each place that the request must not overtake, until f returns false:
// the live fair places before its own, or all live fair places if it has none.
func (r *Record) ahead(now Time, q *driver.AcquireRequest, f func(*Place) bool) {
	for i := range r.Places {
		p := &r.Places[i]
		switch {
		case !p.live(now):
		case p.ID == q.Place && p.keeps(q):
			return
		case p.ID == q.Place: // it gets a new place at the end
		case p.Fair && !f(p):
			return
		}
	}
}

// keeps reports whether the request, which has the ID of p, is for the same kind of hold.
func (p *Place) keeps(q *driver.AcquireRequest) bool {
	return p.Mode == q.Mode && p.Limit == q.Limit && p.Fair == q.Fair
}

// excludes reports whether q is not granted beside the hold that the waiter of p will have.
func (p *Place) excludes(q *driver.AcquireRequest) bool {
	return excludes(p.LockID, p.Mode, p.Limit, q)
}

// queue returns the places after a refusal: with the place of the request if it wants one and
// the queue is not full. position is the position of that place, or driver.NoPlace.
func (r *Record) queue(now Time, q *driver.AcquireRequest) (places []Place, position int, changed bool) {
	places = livePlaces(r.Places, now)
	if q.Place.IsZero() {
		return places, driver.NoPlace, false
	}
	keep := q.PlaceTTL()
	p := placeOf(q)
	p.Since, p.Asked, p.Until = now, now, now.plus(keep)
	i := slices.IndexFunc(places, func(other Place) bool { return other.ID == q.Place })
	if i >= 0 {
		old := places[i]
		if old.keeps(q) {
			// Another waiter of the same Client may have inherited the place.
			same := old.LockID == p.LockID && old.Owner == p.Owner && old.Host == p.Host
			if same && old.Until.Until(now) >= keep-keep/4 {
				return places, fairBefore(places[:i]), false
			}
			p.Since = old.Since
			places = slices.Clone(places)
			places[i] = p
			return places, fairBefore(places[:i]), true
		}
		places = slices.Delete(slices.Clone(places), i, i+1) // it gets a new place at the end
	}
	if len(places) >= driver.MaxPlaces {
		return places, driver.NoPlace, false
	}
	position = fairBefore(places)
	return append(slices.Clip(places), p), position, true
}

// placeOf returns the place of a request, without its times.
func placeOf(q *driver.AcquireRequest) Place {
	return Place{
		ID: q.Place, LockID: q.LockID, Mode: q.Mode, Limit: q.Limit, Fair: q.Fair,
		Owner: driver.CutPlaceName(q.Details.Owner), Host: driver.CutPlaceName(q.Details.Host),
	}
}

func fairBefore(places []Place) (n int) {
	for i := range places {
		if places[i].Fair {
			n++
		}
	}
	return n
}

// without returns the places except the given one.
func without(places []Place, id driver.PlaceID) []Place {
	i := slices.IndexFunc(places, func(p Place) bool { return p.ID == id })
	if i < 0 {
		return places
	}
	if len(places) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(places), i, i+1)
}

// mostAhead is the number of places ahead in a refusal.
const mostAhead = 4

// firstAhead returns the first places ahead.
func (r *Record) firstAhead(now Time, q *driver.AcquireRequest) (ahead []driver.Place) {
	r.ahead(now, q, func(p *Place) bool {
		ahead = append(ahead, p.status(r.Resource, now, len(ahead)))
		return len(ahead) < mostAhead
	})
	return ahead
}
