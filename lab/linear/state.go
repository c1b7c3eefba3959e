package linear

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

const never = time.Duration(math.MaxInt64)

func plus(t, d time.Duration) time.Duration {
	if d == driver.Forever || t > never-d {
		return never
	}
	return t + d
}

// state is what is known about one resource. The exact time of a decision is not known, so
// neither is the exact end of a hold.
type state struct {
	last   uint64  // the highest granted token
	holds  []hold  // sorted by name
	places []place // in the order of the queue
}

// hold is a granted hold that may still be there.
type hold struct {
	name
	token   uint64 // 0: granted without an answer; then the token is
	above   uint64 // higher than this one
	mode    driver.Mode
	limit   int           // of a shared hold
	soonest time.Duration // the hold ends between these times
	latest  time.Duration
	delay   time.Duration
	givenUp bool // released with a delay
}

// name identifies a hold.
type name struct {
	lockID string
	id     driver.HoldID
}

// request is an event that the store decided sometime between from and to.
type request struct {
	drivertest.Event
	from, to time.Duration
}

func (h hold) mayLive(r request) bool  { return r.from < h.latest }
func (h hold) mustLive(r request) bool { return r.to < h.soonest }

func (h hold) clear(end time.Duration) time.Duration {
	if h.givenUp {
		return end
	}
	return plus(end, h.delay)
}

func (h hold) mayBlock(r request) bool  { return r.from < h.clear(h.latest) }
func (h hold) mustBlock(r request) bool { return r.to < h.clear(h.soonest) }

// matches applies the rules of package driver for a HoldRef. A request with a token has it from
// an answer, so it does not match a hold that was granted without an answer.
func (h hold) matches(ref driver.HoldRef) bool {
	return h.lockID == ref.LockID && (ref.HoldID.IsZero() || h.id == ref.HoldID) &&
		(ref.Token == 0 || h.token == ref.Token)
}

func (h hold) excludes(r request) bool {
	return h.lockID == r.Ref.LockID || h.mode == driver.Exclusive || r.Mode == driver.Exclusive ||
		h.limit != r.Limit
}

// step returns every state that the resource can be in after the request. There is none if the
// answer is impossible.
func (s state) step(r request) []state {
	switch r.Op {
	case drivertest.Acquire:
		switch r.Outcome {
		case drivertest.Done:
			return s.granted(r)
		case drivertest.Held:
			return s.refused(r)
		}
		return append(append(s.granted(r), s.queued(r)...), s)
	case drivertest.Renew:
		switch r.Outcome {
		case drivertest.Done:
			return s.renewed(r)
		case drivertest.Lost:
			return s.lost(r)
		}
		return append(s.renewed(r), s)
	case drivertest.Release:
		if r.Outcome == drivertest.Done {
			return s.released(r)
		}
		return append(s.released(r), s)
	}
	return []state{s}
}

// granted returns the states after a grant: a repeat finds its own hold, or nothing excludes
// the request. Without an answer the token is 0.
func (s state) granted(r request) (next []state) {
	token := r.Ref.Token
	own := slices.IndexFunc(s.holds, func(h hold) bool { return h.lockID == r.Ref.LockID && h.id == r.Ref.HoldID })
	if own >= 0 {
		h := s.holds[own]
		if h.mayLive(r) && !h.givenUp {
			switch {
			case token == 0 || token == h.token:
				next = append(next, s)
			case h.token == 0 && token > h.above:
				h.token = token
				repeated := s.with(own, h)
				repeated.last = max(s.last, token)
				next = append(next, repeated)
			}
		}
		if h.mustBlock(r) {
			return next
		}
	}
	if token != 0 && token <= s.last {
		return next
	}
	others, ok := s.ahead(r)
	if !ok {
		return next
	}
	fresh := state{last: max(s.last, token), places: s.without(r.Place)}
	for _, h := range s.holds {
		switch {
		case h.excludes(r) && h.mustBlock(r):
			return next
		case h.excludes(r): // so it must be gone
			continue
		case h.mustBlock(r):
			others++
		}
		fresh.holds = append(fresh.holds, h)
	}
	if r.Limit > 0 && others >= r.Limit {
		return next
	}
	return append(next, fresh.add(hold{
		name: name{r.Ref.LockID, r.Ref.HoldID}, token: token, above: s.last, mode: r.Mode, limit: r.Limit,
		soonest: plus(r.from, r.TTL), latest: plus(r.to, r.TTL), delay: r.TakeoverDelay,
	}))
}

// refused returns the states after a refusal: something may exclude the request, which is not a
// repeat for its own live hold.
func (s state) refused(r request) []state {
	shared, inTheWay, mayBeSelf, mustBeSelf := 0, false, false, false
	for _, h := range s.holds {
		if h.name == (name{r.Ref.LockID, r.Ref.HoldID}) && h.mustLive(r) && !h.givenUp {
			return nil
		}
		if !h.mayBlock(r) {
			continue
		}
		inTheWay = inTheWay || h.excludes(r)
		shared++
		if h.lockID == r.Ref.LockID {
			mayBeSelf = mayBeSelf || h.mayLive(r)
			mustBeSelf = mustBeSelf || h.mustLive(r)
		}
	}
	behind, most := s.mayBeBehind(r)
	possible := inTheWay || behind || r.Limit > 0 && shared+most >= r.Limit
	if !possible || r.BySelf && !mayBeSelf || !r.BySelf && mustBeSelf {
		return nil
	}
	if r.Place.IsZero() || r.Position == driver.NoPlace {
		return []state{s} // it has no place: refused by its own lock ID, or the store could not write
	}
	return s.queued(r)
}

func (s state) find(r request) int {
	return slices.IndexFunc(s.holds, func(h hold) bool { return h.matches(r.Ref) })
}

func (s state) renewed(r request) []state {
	i := s.find(r)
	if i < 0 || !s.holds[i].mayLive(r) || s.holds[i].givenUp {
		return nil
	}
	h := s.holds[i]
	h.soonest = max(h.soonest, plus(r.from, r.TTL))
	h.latest = max(h.latest, plus(r.to, r.TTL))
	return []state{s.with(i, h)}
}

func (s state) lost(r request) []state {
	i := s.find(r)
	if i < 0 || s.holds[i].givenUp {
		return []state{s}
	}
	h := s.holds[i]
	if h.mustLive(r) {
		return nil
	}
	h.latest = min(h.latest, r.to)
	h.soonest = min(h.soonest, h.latest)
	return []state{s.with(i, h)}
}

func (s state) released(r request) []state {
	if !r.Place.IsZero() {
		s.places = s.without(r.Place)
		if r.Leaves() {
			return []state{s}
		}
	}
	i := s.find(r)
	if i < 0 {
		return []state{s}
	}
	h := s.holds[i]
	gone := state{last: s.last, holds: slices.Delete(slices.Clone(s.holds), i, i+1), places: s.places}
	if r.After == 0 {
		return []state{gone}
	}
	given := h
	given.givenUp = true
	given.soonest = min(h.soonest, plus(r.from, r.After))
	given.latest = min(h.latest, plus(r.to, r.After))
	switch {
	case h.mustLive(r):
		return []state{s.with(i, given)}
	case h.mayLive(r):
		return []state{s.with(i, given), gone}
	}
	return []state{gone}
}

func (s state) with(i int, h hold) state {
	s.holds = slices.Clone(s.holds)
	s.holds[i] = h
	return s
}

func (s state) add(h hold) state {
	s.holds = append(slices.Clone(s.holds), h)
	slices.SortFunc(s.holds, func(a, b hold) int {
		return slices.Compare(append([]byte(a.lockID), a.id[:]...), append([]byte(b.lockID), b.id[:]...))
	})
	return s
}

func (s state) equal(o state) bool {
	return s.last == o.last && slices.Equal(s.holds, o.holds) && slices.Equal(s.places, o.places)
}

// hash is the same for equal states.
func (s state) hash() uint64 {
	sum := s.last
	for _, h := range s.holds {
		sum = sum*31 + h.token + uint64(h.soonest) + uint64(h.latest) + uint64(h.id[0])
	}
	for _, p := range s.places {
		sum = sum*31 + uint64(p.soonest) + uint64(p.latest) + uint64(p.id[0])
	}
	return sum
}

// shape is the same for states with the same holds and places, whenever these end.
func (s state) shape() (sum uint64) {
	for _, h := range s.holds {
		sum = sum*31 + binary.BigEndian.Uint64(h.id[:])
	}
	for _, p := range s.places {
		sum = sum*37 + binary.BigEndian.Uint64(p.id[:])
	}
	return sum
}
