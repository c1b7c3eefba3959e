package linear

import (
	"cmp"
	"math/bits"
	"slices"
)

// course is one way in which things can have come to a moment.
type course struct {
	state
	decided slots // of the open requests
	silent  int   // how many without an answer have done something, in all
	lately  int   // and since the last moment
	trail   *trail
}

// trail is in which order requests were decided, the last one first.
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

// likely are n of them at most: of each shape in turn one, for many differ only by when
// something ends. Those come first in which the fewest without an answer have done something,
// and the most with an answer are decided: what these need may be gone later.
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

// courses are some of which no two are alike.
type courses struct {
	all []course
	at  map[uint64][]int
}

// add reports whether there was none like it.
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

// slots is a set of open requests, by the numbers that these have while they are open.
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

// free returns a number that is not in the set, maxSlots if there is none.
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
