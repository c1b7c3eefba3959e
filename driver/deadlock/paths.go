package deadlock

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// paths returns the paths of the deadlocks, at most limit, and takes their victims away. The
// one that noted last that it waits is the victim of the first.
func (l *left) paths(limit int) (paths [][]Link) {
	var stuck []int
	for i := range l.holds {
		if h := &l.holds[i]; !h.gone && h.wants != nil {
			stuck = append(stuck, i)
		}
	}
	slices.SortFunc(stuck, func(a, b int) int { return later(l.holds[a].Status, l.holds[b].Status) })
	s := newSearch(l)
	s.label(stuck)
	members := make(map[int][]int)
	for _, i := range stuck {
		members[l.holds[i].component] = append(members[l.holds[i].component], i)
	}
	for _, i := range stuck {
		// Who is in no cycle now is in none later: nobody comes to wait for anybody.
		if len(paths) == limit || l.holds[i].gone || l.holds[i].component == noComponent {
			continue
		}
		path := s.path(i)
		if path == nil {
			continue
		}
		paths = append(paths, path)
		if len(paths) == limit {
			break
		}
		l.touched = nil
		if h := &l.holds[i]; h.place != noPlace {
			l.dropPlace(h.wants, h.place)
		}
		l.drop(i)
		l.drain()
		slices.Sort(l.touched)
		for _, c := range slices.Compact(l.touched) {
			still := slices.DeleteFunc(members[c], func(i int) bool { return l.holds[i].gone })
			delete(members, c)
			s.label(still)
			for _, i := range still {
				members[l.holds[i].component] = append(members[l.holds[i].component], i)
			}
		}
		delete(members, noComponent)
	}
	return paths
}

// search looks for those who wait for each other. It goes from a hold to the resource that its
// holder waits for, and to those ahead there, and from these to holds. So what many wait for is
// gone through once, and not for each of them.
type search struct {
	*left
	labels int // components that were found
	// of Tarjan's algorithm, by node
	number, low []int
	open        []bool // it is on the stack
}

func newSearch(l *left) *search {
	return &search{left: l, number: make([]int, l.nodes), low: make([]int, l.nodes), open: make([]bool, l.nodes)}
}

// ahead returns how many places are before that of the holder of a hold.
func (h *hold) ahead() int {
	if h.place == noPlace {
		return len(h.wants.places)
	}
	return h.place
}

// edge is a step of a search under way: the next of the nodes that node leads to.
type edge struct {
	node int
	next int       // which edge
	at   *resource // of a node that is none of a hold
}

// step returns where the next edge leads to, or false after the last one.
func (s *search) step(e *edge) (to edge, ok bool) {
	n := e.next
	e.next++
	if e.node < len(s.holds) {
		h := &s.holds[e.node]
		switch {
		case n == 0:
			return edge{node: h.wants.node, at: h.wants}, true
		case n == 1 && h.ahead() > 0:
			return edge{node: h.wants.node + h.ahead(), at: h.wants}, true
		}
		return edge{}, false
	}
	holds := e.at.holds
	if p := e.node - e.at.node - 1; p >= 0 {
		if n == 0 && p > 0 {
			return edge{node: e.node - 1, at: e.at}, true
		}
		if holds = e.at.places[p].notes; p > 0 {
			n--
		}
	}
	if n < len(holds) {
		return edge{node: holds[n]}, true
	}
	return edge{}, false
}

// label finds the components among the holds, all of which have the same label: Tarjan's
// algorithm, without recursion.
func (s *search) label(holds []int) {
	if len(holds) == 0 {
		return
	}
	of := s.holds[holds[0]].component
	var visited, stack []int
	var way []edge
	enter := func(e edge) {
		visited, stack, way = append(visited, e.node), append(stack, e.node), append(way, e)
		s.number[e.node], s.low[e.node], s.open[e.node] = len(visited), len(visited), true
	}
	for _, i := range holds {
		if s.number[i] == 0 {
			enter(edge{node: i})
		}
		for len(way) > 0 {
			e := &way[len(way)-1]
			node := e.node
			to, ok := s.step(e)
			switch {
			case !ok:
				way = way[:len(way)-1]
				if len(way) > 0 {
					from := way[len(way)-1].node
					s.low[from] = min(s.low[from], s.low[node])
				}
				if s.low[node] == s.number[node] {
					stack = s.close(node, stack)
				}
			case s.open[to.node]:
				s.low[node] = min(s.low[node], s.number[to.node])
			case s.number[to.node] > 0: // of another component
			case to.node >= len(s.holds), !s.holds[to.node].gone && s.holds[to.node].component == of && s.holds[to.node].wants != nil:
				enter(to)
			}
		}
	}
	for _, node := range visited {
		s.number[node] = 0
	}
}

// close takes a component from the stack. Of a single node it is none.
func (s *search) close(first int, stack []int) []int {
	end := len(stack)
	for end--; stack[end] != first; end-- {
	}
	component := noComponent
	if end+1 < len(stack) {
		s.labels++
		component = s.labels
	}
	for _, node := range stack[end:] {
		s.open[node] = false
		if node < len(s.holds) {
			s.holds[node].component = component
		}
	}
	return stack[:end]
}

// path returns those that wait for each other, from the holder of a hold on, as few as there
// can be. It is the holder alone only if nobody else is in its way.
func (s *search) path(start int) []Link {
	type step struct{ hold, from int }
	first := &s.holds[start]
	steps := []step{{start, -1}}
	known := map[int]bool{start: true}
	done := make(map[*resource]int) // of which the holds are known, and how many places
	for at := 0; at < len(steps); at++ {
		h := &s.holds[steps[at].hold]
		if at > 0 && (h.wants == first.at || h.wants == first.wants && first.place != noPlace && first.place < h.ahead()) {
			var path []Link
			for ; at >= 0; at = steps[at].from {
				h := &s.holds[steps[at].hold]
				path = append(path, Link{Holds: *h.Status, WaitsFor: h.Waits.Resource})
			}
			slices.Reverse(path)
			return path
		}
		add := func(holds []int) {
			for _, next := range holds {
				if n := &s.holds[next]; !known[next] && !n.gone && n.component == first.component {
					known[next] = true
					steps = append(steps, step{next, at})
				}
			}
		}
		before, seen := done[h.wants]
		if !seen {
			add(h.wants.holds)
		}
		for p := before; p < h.ahead(); p++ {
			add(h.wants.places[p].notes)
		}
		done[h.wants] = max(before, h.ahead())
	}
	if first.wants == first.at {
		return []Link{{Holds: *first.Status, WaitsFor: first.Waits.Resource}}
	}
	return nil
}

// later orders holds whose holders wait: first the one whose holder noted that last. Of the
// same moment, hold IDs decide last: a server may show each holder only its own, and each
// would then find itself before the other.
func later(x, y *driver.Status) int {
	return cmp.Or(
		y.Waits.Since.Compare(x.Waits.Since),
		cmp.Compare(y.Resource, x.Resource),
		y.Created.Compare(x.Created),
		bytes.Compare(y.HoldID[:], x.HoldID[:]),
	)
}
