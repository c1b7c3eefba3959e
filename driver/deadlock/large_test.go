package deadlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
)

// large are graphs that were slow, or would be. Each has about n holds and waiters.
var large = map[string]func(n int) *scene{
	"ring": func(n int) *scene {
		s := new(scene)
		for i := range n / 2 {
			s.hold(fmt.Sprint(i), fmt.Sprint((i+1)%(n/2)))
		}
		return s
	},
	"chain": func(n int) *scene { // whose end nobody waits for
		s := new(scene)
		for i := range n / 2 {
			s.hold(fmt.Sprint(i), fmt.Sprint(i+1))
		}
		s.hold(fmt.Sprint(n/2), "")
		return s
	},
	"pairs": func(n int) *scene {
		s := new(scene)
		for i := range n / 4 {
			s.hold(fmt.Sprint("a", i), fmt.Sprint("b", i))
			s.hold(fmt.Sprint("b", i), fmt.Sprint("a", i))
		}
		return s
	},
	"all behind a ring": func(n int) *scene {
		s := new(scene)
		for i := range n / 4 {
			s.hold(fmt.Sprint(i), fmt.Sprint((i+1)%(n/4)))
		}
		for i := range n / 4 {
			s.hold(fmt.Sprint("behind", i), "0")
		}
		return s
	},
	"stairs": func(n int) *scene { return stairs(n, driver.Exclusive, 0) },
	"many holders": func(n int) *scene { // of one resource, whose 1,000 waiters hold what these wait for
		s := new(scene)
		for i := range n {
			h := s.hold("one", "")
			h.Mode = driver.Shared
			if i%2 == 0 {
				h.Waits = &driver.Waits{Resource: fmt.Sprint("of", i%1000)}
			} else {
				h.Waits = &driver.Waits{Resource: "one", Mode: driver.Exclusive}
			}
		}
		for i := range min(n, 1000) {
			s.hold(fmt.Sprint("of", i), "one")
		}
		return s
	},
}

// stairs has holders of one resource who go one after the other: each makes room for the holder
// of a step, and only that for the next. Others wait for the one, in that mode.
func stairs(n int, mode driver.Mode, limit int) *scene {
	s := new(scene)
	n /= 6
	for i := range n {
		next := ""
		if i > 0 {
			next = fmt.Sprintf("step%06d", n-i+1)
		}
		step := fmt.Sprintf("step%06d", n-i)
		s.hold(step, next)
		s.hold("one", step).Mode = driver.Shared
		w := s.wait("one")
		w.LockID, w.Mode, w.Limit = fmt.Sprint("waiter", i), mode, limit
	}
	return s
}

// A search can be given up.
func TestGivenUp(t *testing.T) {
	s := stairs(20_000, driver.Shared, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if paths, err := deadlock.GraphOf(s.holds, s.places).All(ctx, 100); !errors.Is(err, context.Canceled) || paths != nil {
		t.Errorf("error %v, %d paths", err, len(paths))
	}
}

// The work grows with the graph, and not with its square: at a hundred times this size a test
// that does so does not end.
func TestLarge(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	for name, make := range large {
		t.Run(name, func(t *testing.T) {
			s := make(n)
			paths := all(t, deadlock.GraphOf(s.holds, s.places))
			want := map[string]int{"ring": 1, "all behind a ring": 1, "pairs": 100, "many holders": 100}[name]
			if len(paths) != want {
				t.Errorf("%d deadlocks, want %d", len(paths), want)
			}
			if name == "ring" && len(paths[0]) != n/2 {
				t.Errorf("the path has %d links", len(paths[0]))
			}
		})
	}
}

func BenchmarkAll(b *testing.B) {
	for name, make := range large {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s := make(n)
				for b.Loop() {
					all(b, deadlock.GraphOf(s.holds, s.places))
				}
			})
		}
	}
}
