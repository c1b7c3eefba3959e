package server

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/server/budget"
)

// However many turns one caller waits for, another has the second that comes.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, b := newTurns(), budget.New(nil)
		for range turns.free {
			turns.enter(t.Context(), b.Of("greedy", false))
		}
		var got []string
		enter := func(name string) {
			go func() {
				if turns.enter(t.Context(), b.Of(name, false)) {
					got = append(got, name)
				}
			}()
			synctest.Wait()
		}
		for range 5 {
			enter("greedy")
		}
		enter("other")
		enter("other")
		for range 7 {
			turns.leave()
			synctest.Wait()
		}
		if want := []string{"greedy", "other", "greedy", "other", "greedy", "greedy", "greedy"}; !slices.Equal(got, want) {
			t.Errorf("%q came in turn, want %q", got, want)
		}
	})
}

// Who stops waiting takes no turn away, also if it comes at the same moment.
func TestTurnsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, b := newTurns(), budget.New(nil)
		all, random := turns.free, rand.New(rand.NewPCG(1, 2))
		var under, most int
		var mu sync.Mutex
		note := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			under += change
			most = max(most, under)
		}
		var done sync.WaitGroup
		for range 20 * all {
			who := b.Of([]string{"a", "b", "c"}[random.IntN(3)], false)
			patience, work := time.Duration(random.IntN(9))*time.Millisecond, time.Duration(random.IntN(3))*time.Millisecond
			done.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if turns.enter(ctx, who) {
					note(1)
					time.Sleep(work)
					note(-1)
					turns.leave()
				}
			})
		}
		done.Wait()
		if turns.free != all || most != all || len(turns.waiting)+len(turns.next) > 0 {
			t.Errorf("of %d turns %d are free, and %d were taken at once: %+v", all, turns.free, most, turns)
		}
	})
}
