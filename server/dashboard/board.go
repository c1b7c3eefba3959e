package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/sight"
)

// board is a sight by resource, with what is wrong.
type board struct {
	*sight.Sight
	entries []*entry // what hurts most first
}

// entry is a resource that is held or waited for.
type entry struct {
	Resource string
	Holds    []driver.Status
	Waiters  []driver.Place
	Trouble  trouble
	Waited   time.Duration // the longest wait
}

// boardOf returns the board of the sight, which it keeps for the next visit.
func (d *Dashboard) boardOf(s *sight.Sight) *board {
	d.board.Lock()
	defer d.board.Unlock()
	if b := d.board.board; b != nil && b.Sight == s {
		return b
	}
	b := makeBoard(s)
	if d.board.board == nil || d.board.Number < s.Number {
		d.board.board = b
	}
	return b
}

func makeBoard(s *sight.Sight) *board {
	b := &board{Sight: s}
	holds, waiters := s.Holds, s.Waiters
	for len(holds)+len(waiters) > 0 {
		e := &entry{Resource: first(holds, waiters)}
		e.Holds, holds = cut(holds, e.Resource, func(h driver.Status) string { return h.Resource })
		e.Waiters, waiters = cut(waiters, e.Resource, func(p driver.Place) string { return p.Resource })
		for _, p := range e.Waiters {
			e.Waited = max(e.Waited, p.Age())
		}
		e.Trouble = troubleOf(e)
		b.entries = append(b.entries, e)
	}
	slices.SortStableFunc(b.entries, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(y.Trouble.Level, x.Trouble.Level), cmp.Compare(y.Waited, x.Waited), cmp.Compare(x.Resource, y.Resource))
	})
	return b
}

// first returns the first resource of both, which are sorted by it.
func first(holds []driver.Status, waiters []driver.Place) string {
	switch {
	case len(waiters) == 0:
		return holds[0].Resource
	case len(holds) == 0:
		return waiters[0].Resource
	}
	return min(holds[0].Resource, waiters[0].Resource)
}

// cut returns those of the resource at the beginning of all, and the rest.
func cut[T any](all []T, resource string, name func(T) string) (of, rest []T) {
	n := 0
	for n < len(all) && name(all[n]) == resource {
		n++
	}
	return all[:n:n], all[n:]
}

// of returns the entry of a resource, an empty one if it is free and nobody waits for it.
func (b *board) of(resource string) *entry {
	i := slices.IndexFunc(b.entries, func(e *entry) bool { return e.Resource == resource })
	if i < 0 {
		return &entry{Resource: resource}
	}
	return b.entries[i]
}
