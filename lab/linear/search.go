package linear

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// search looks for an order of a long history, for which porcupine needs too long: a wrong
// choice shows only much later. It goes from moment to moment and keeps several courses side by
// side, as many as the effort allows, and those first in which few requests without an answer
// took effect. It decides a request only when an answer requires it (Lowe, "Testing for
// linearizability", 2017). If no course can go on, it returns to an earlier moment and makes a
// greater effort.
//
// A found order is a proof, which sound checks. If search finds none, there may still be one.
type search struct {
	requests []request
	moments  []moment
	slot     []int     // slot of each request while it is open
	reached  []reached // before each moment
}

// moment is the call of a request, or its answer, by which it has been decided.
type moment struct {
	at     int64
	answer bool
	op     int
}

// reached is the result of the search before a moment.
type reached struct {
	courses []course
	open    []int // called, but not answered yet
}

// effort limits the search at a moment.
type effort struct {
	width  int // courses to keep
	before int // requests to decide before the one that is answered
	silent int // how many of these may have no answer
	back   int // how many moments the search returns before making this effort
}

// efforts are made in this order: first the cheapest, then combinations of requests shortly
// before the moment, then long ways back.
var efforts = []effort{
	{width: 16, before: 2},
	{width: 64, before: 3, silent: 1, back: 30},
	{width: 128, before: 5, silent: 3, back: 30},
	{width: 256, before: 2, silent: 1, back: 100},
	{width: 1000, before: 1, silent: 1, back: 300},
	{width: 1000, before: 3, silent: 2, back: 300},
}

func newSearch(ops []porcupine.Operation) *search {
	s := &search{slot: make([]int, len(ops))}
	for i, o := range ops {
		s.requests = append(s.requests, o.Input.(request))
		s.moments = append(s.moments, moment{o.Call, false, i}, moment{o.Return, true, i})
	}
	slices.SortStableFunc(s.moments, func(a, b moment) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.answer == b.answer:
			return 0
		case a.answer: // a call at the time of an answer may be decided before it
			return 1
		}
		return -1
	})
	s.reached = make([]reached, len(s.moments)+1)
	s.reached[0].courses = []course{{}}
	return s
}

func (s *search) isSilent(op int) bool { return s.requests[op].Outcome == drivertest.Unknown }

// order returns the requests in an order that explains them, or nil if it finds none before the
// deadline.
func (s *search) order(until time.Time) []int {
	level, farthest := 0, 0
	for i := 0; i < len(s.moments); {
		if time.Now().After(until) {
			return nil
		}
		if i > farthest { // the hard moment is passed
			level = 0
		}
		next, ok := s.pass(i, efforts[level])
		switch {
		case !ok:
			return nil
		case len(next.courses) > 0:
			i++
			s.reached[i] = next
			continue
		}
		if level++; level == len(efforts) {
			return nil
		}
		farthest = max(farthest, i)
		i = max(0, i-efforts[level].back)
	}
	return s.reached[len(s.moments)].courses[0].trail.order()
}

// pass goes past a moment. It reports whether there is room for the open requests.
func (s *search) pass(i int, e effort) (reached, bool) {
	from, m := s.reached[i], s.moments[i]
	if m.answer {
		return s.answer(from, m.op, e), true
	}
	var taken slots
	for _, op := range from.open {
		taken.add(s.slot[op])
	}
	if s.slot[m.op] = taken.free(); s.slot[m.op] == maxSlots {
		return reached{}, false
	}
	next := reached{open: append(slices.Clone(from.open), m.op)}
	refusals := s.refusals(next.open)
	for _, c := range from.courses {
		next.courses = append(next.courses, s.refuse(c, refusals))
	}
	return next, true
}

// answer goes past the answer to a request. For a request without an answer it goes past the
// moment after which it can no longer be decided.
func (s *search) answer(from reached, op int, e effort) reached {
	open := slices.DeleteFunc(slices.Clone(from.open), func(o int) bool { return o == op })
	refusals := s.refusals(from.open)
	var passed, tried courses
	pass := func(c course) {
		c.decided.remove(s.slot[op])
		c.lately = 0
		passed.add(c)
	}
	var level []course
	for _, c := range from.courses {
		decided := c.decided.has(s.slot[op])
		if decided || s.isSilent(op) {
			pass(c)
		}
		if !decided && tried.add(c) {
			level = append(level, c)
		}
	}
	for before := 0; before <= e.before && len(level) > 0; before++ {
		var deeper []course
		for _, c := range level {
			for _, after := range s.decide(c, op) {
				pass(s.refuse(after, refusals))
			}
			if before == e.before {
				continue
			}
			for _, o := range open {
				if c.decided.has(s.slot[o]) || s.isSilent(o) && c.lately >= e.silent {
					continue
				}
				for _, after := range s.decide(c, o) {
					after = s.refuse(after, refusals)
					switch {
					case after.decided.has(s.slot[op]):
						pass(after)
					case tried.add(after):
						deeper = append(deeper, after)
					}
				}
			}
		}
		level = likely(deeper, 4*e.width)
	}
	return reached{courses: likely(passed.all, e.width), open: open}
}

// decide returns the courses that deciding a request may lead to. It leaves out the course in
// which a request without an answer changes nothing.
func (s *search) decide(c course, op int) (after []course) {
	silent := s.isSilent(op)
	for _, next := range c.step(s.requests[op]) {
		if silent && next.equal(c.state) {
			continue
		}
		d := course{state: next, decided: c.decided, silent: c.silent, lately: c.lately, trail: &trail{op, c.trail}}
		d.decided.add(s.slot[op])
		if silent {
			d.silent++
			d.lately++
		}
		after = append(after, d)
	}
	return after
}

// refusals returns the refused acquires among the requests.
func (s *search) refusals(open []int) (some []int) {
	for _, op := range open {
		if r := &s.requests[op]; r.Op == drivertest.Acquire && r.Outcome == drivertest.Held {
			some = append(some, op)
		}
	}
	return some
}

// refuse decides refusals as early as possible, because their cause may be gone later. This is
// safe for refusals that change nothing or only extend their place.
func (s *search) refuse(c course, refusals []int) course {
	for _, op := range refusals {
		if c.decided.has(s.slot[op]) {
			continue
		}
		r := s.requests[op]
		if !r.Place.IsZero() && !slices.ContainsFunc(c.places, func(p place) bool { return p.is(r) && p.mustLive(r) }) {
			continue // it may get a new place, whose position matters
		}
		if next := c.refused(r); len(next) == 1 {
			c.state, c.trail = next[0], &trail{op, c.trail}
			c.decided.add(s.slot[op])
		}
	}
	return c
}

// sound reports whether an order of requests is a proof: each request is in it at most once,
// only requests without an answer are missing, no request comes after one that was called after
// its answer, and porcupine accepts the answers in this order.
func sound(order []int, ops []porcupine.Operation) bool {
	left := make(map[int]bool)
	for op, o := range ops {
		left[op] = o.Input.(request).Outcome != drivertest.Unknown
	}
	turns := make([]porcupine.Operation, len(order))
	latest := int64(math.MinInt64) // latest call so far
	for i, op := range order {
		turn := ops[op]
		latest = max(latest, turn.Call)
		if _, ok := left[op]; !ok || turn.Return < latest {
			return false
		}
		delete(left, op)
		turn.Call, turn.Return = int64(2*i), int64(2*i+1)
		turns[i] = turn
	}
	for _, answered := range left {
		if answered {
			return false
		}
	}
	return porcupine.CheckOperations(model, turns)
}
