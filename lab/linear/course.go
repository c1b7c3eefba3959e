package linear

import (
	"cmp"
	"math/bits"
	"slices"
)

// course is a possible state of the resource at a moment, with the decisions that lead to it.
type course struct {
	state
	decided slots // open requests that are decided
	silent  int   // how many requests without an answer have changed the state
	lately  int   // how many of these since the last moment
	trail   *trail
}

// trail is the order of decided requests, the last one first.
type trail struct {
	op     int
	before *trail
}

func (t *trail) order() (order []int) {
	for ; t != nil; t = t.before {
		order = append(order, t.op)
	}
	slices.Reverse(order)
	return order
}

// likely returns at most n of the courses: one of each shape in turn, because many courses
// differ only in the end of a hold. Courses come first in which few requests without an answer
// changed the state, and then those in which many answered requests are decided, because later
// the state may no longer allow them.
func likely(courses []course, n int) []course {
	if len(courses) <= n {
		return courses
	}
	slices.SortStableFunc(courses, func(a, b course) int {
		return cmp.Or(cmp.Compare(a.silent, b.silent), cmp.Compare(b.decided.count(), a.decided.count()))
	})
	alike := make(map[uint64]int)
	turn := make([]int, len(courses))
	order := make([]int, len(courses))
	for i, c := range courses {
		shape := c.shape()
		turn[i], order[i] = alike[shape], i
		alike[shape]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(turn[a], turn[b]) })
	some := make([]course, n)
	for i := range some {
		some[i] = courses[order[i]]
	}
	return some
}

// courses is a set of courses.
type courses struct {
	all []course
	at  map[uint64][]int
}

// add adds a course unless the set has an equal one, and reports whether it did.
func (s *courses) add(c course) bool {
	key := c.hash() ^ c.decided.hash()
	for _, i := range s.at[key] {
		if known := &s.all[i]; known.decided == c.decided && known.equal(c.state) {
			if c.silent < known.silent {
				*known = c
			}
			return false
		}
	}
	if s.at == nil {
		s.at = make(map[uint64][]int)
	}
	s.at[key] = append(s.at[key], len(s.all))
	s.all = append(s.all, c)
	return true
}

// slots is a set of open requests, by the numbers that they have while they are open.
type slots [8]uint64

const maxSlots = len(slots{}) * 64

func (s *slots) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s *slots) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *slots) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

func (s *slots) count() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// free returns a number that is not in the set, or maxSlots if there is none.
func (s *slots) free() int {
	for i, word := range s {
		if n := bits.TrailingZeros64(^word); n < 64 {
			return i*64 + n
		}
	}
	return maxSlots
}

func (s *slots) hash() (sum uint64) {
	for _, word := range s {
		sum = bits.RotateLeft64(sum, 7)*31 + word
	}
	return sum
}
