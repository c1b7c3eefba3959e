package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/sight"
	"github.com/holdfast-go/holdfast/server/words"
)

// level is how much something hurts.
type level int

// The levels.
const (
	fine  level = iota
	watch       // it may become worse: a holder is late, or somebody waits long
	hurts       // somebody waits for a holder that may be gone
	stuck       // somebody waits for a holder that is gone: words.Stuck
)

// String is the level for style sheets.
func (l level) String() string { return [...]string{"fine", "watch", "hurts", "stuck"}[l] }

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
	Level    level
	Waited   time.Duration // the longest wait
	later    time.Duration // how long after the sight it was read
}

// boardOf returns the board of the sight, with what was read of single resources since. It is
// kept for the next visit.
func (d *Dashboard) boardOf(s *sight.Sight) *board {
	d.board.Lock()
	defer d.board.Unlock()
	if b := d.board.board; b != nil && b.Sight == s {
		return b
	}
	maps.DeleteFunc(d.board.fresh, func(_ string, f *sight.Sight) bool { return f.At.Before(d.looker.Last().At) })
	b := makeBoard(s, d.board.fresh)
	if d.board.board == nil || d.board.Number <= s.Number {
		d.board.board = b
	}
	return b
}

// lookAt reads one resource from the store now: what pages show of it is then new.
func (d *Dashboard) lookAt(ctx context.Context, resource string) (*sight.Sight, error) {
	s, err := d.looker.Resource(ctx, resource)
	if err != nil {
		return nil, err
	}
	d.board.Lock()
	defer d.board.Unlock()
	if old := d.board.fresh[resource]; old == nil || !old.At.After(s.At) {
		d.board.fresh[resource], d.board.board = s, nil
		d.board.reads++
	}
	return s, nil
}

// reads returns how often lookAt has found something new.
func (d *Dashboard) reads() uint64 {
	d.board.Lock()
	defer d.board.Unlock()
	return d.board.reads
}

func makeBoard(s *sight.Sight, fresh map[string]*sight.Sight) *board {
	b := &board{Sight: s}
	for _, e := range entriesOf(s) {
		if f := fresh[e.Resource]; f == nil || f.At.Before(s.At) {
			b.entries = append(b.entries, e)
		}
	}
	for name, f := range fresh {
		if f.At.Before(s.At) {
			continue
		}
		// What is free is an entry, too: it was read later.
		for _, e := range append(entriesOf(f), &entry{Resource: name})[:1] {
			e.later = f.At.Sub(s.At)
			b.entries = append(b.entries, e)
		}
	}
	slices.SortStableFunc(b.entries, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(y.Level, x.Level), cmp.Compare(y.Waited, x.Waited), cmp.Compare(x.Resource, y.Resource))
	})
	return b
}

// entriesOf returns the resources of a sight, by their names.
func entriesOf(s *sight.Sight) (all []*entry) {
	for holds, waiters := s.Holds, s.Waiters; len(holds)+len(waiters) > 0; {
		e := new(entry)
		if len(holds) > 0 {
			e.Resource = holds[0].Resource
		}
		if len(waiters) > 0 && (len(holds) == 0 || waiters[0].Resource < e.Resource) {
			e.Resource = waiters[0].Resource
		}
		e.Holds, holds = cut(holds, func(h driver.Status) bool { return h.Resource == e.Resource })
		e.Waiters, waiters = cut(waiters, func(p driver.Place) bool { return p.Resource == e.Resource })
		for _, p := range e.Waiters {
			e.Waited = max(e.Waited, p.Age())
		}
		e.Level = e.level()
		all = append(all, e)
	}
	return all
}

// cut returns those at the beginning that are chosen, and the rest.
func cut[T any](all []T, chosen func(T) bool) (of, rest []T) {
	n := 0
	for n < len(all) && chosen(all[n]) {
		n++
	}
	return all[:n:n], all[n:]
}

// of returns the entry of a resource, an empty one if it is free and nobody waits for it.
func (b *board) of(resource string) *entry {
	if i := slices.IndexFunc(b.entries, func(e *entry) bool { return e.Resource == resource }); i >= 0 {
		return b.entries[i]
	}
	return &entry{Resource: resource}
}

// longWait is how long somebody waits before that is worth a look.
const longWait = time.Minute

// level returns how much the worst hurts that is wrong.
func (e *entry) level() (worst level) {
	if e.Waited >= longWait {
		worst = watch
	}
	for _, h := range e.Holds {
		pulse, _ := vitality(h)
		is := map[string]level{"late": watch, "silent": watch, "ended": watch}[pulse]
		switch waited := len(e.Waiters) > 0; {
		case waited && words.Gone(h):
			is = stuck
		case waited && (pulse == "quiet" || pulse == "ended"):
			is = hurts
		}
		worst = max(worst, is)
	}
	return worst
}
