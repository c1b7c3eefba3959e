package waitline_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

func named(ids ...driver.PlaceID) (ahead []driver.Place) {
	for _, id := range ids {
		ahead = append(ahead, driver.Place{ID: id, Fair: true})
	}
	return ahead
}

// fairLine returns a line with n fair waiters and the places that they have asked with: as
// many as a line with 16 places may have.
func fairLine(r *room, n int) (line []*waitline.Waiter, places []driver.PlaceID) {
	for i := range n {
		line = append(line, r.join(fair, string(rune('a'+i)), func(w *waitline.Waiter) {
			w.Key, w.Timeout = w.LockID, 10*time.Second
		}))
	}
	for i, w := range line[:min(n, 16)] {
		if i+1 < n {
			r.rest(0, line[i+1]) // until w has its place
		}
		places = append(places, r.ask(w, 0).Place)
		refused(w, i)
		r.Waiting()
	}
	return line, places
}

// With 16 places each of the first 16 waiters has a place of its own, taken in the order of
// the line, and asks with it often enough to keep it. The next waiter gets a place when
// another leaves.
func TestOwnPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		r.traits.Notifies = false
		line, places := fairLine(r, 17)
		for i, place := range places {
			if place.IsZero() || slices.Contains(places[:i], place) {
				t.Errorf("place %d is %v", i, place)
			}
		}
		last := line[16]
		for range 4 { // 10 s: the time for which the store keeps a place
			r.rest(0, line[1:]...)
			r.rest(driver.FairPlaceTTL/4, last)
			for i, w := range line[:16] {
				ask := r.ask(w, 0)
				if ask.Place != places[i] || ask.Within != driver.FairPlaceTTL/4 {
					t.Errorf("waiter %d asks with %+v, its place is %v", i, ask, places[i])
				}
				refused(w, i)
			}
		}
		// Without answers an attempt gets more and more time, after a first one that leaves
		// time for a second.
		for _, within := range []int{1, 1, 2, 4, 4} {
			if ask := r.ask(line[1], 3*time.Second); ask.Within != time.Duration(within)*driver.FairPlaceTTL/4 {
				t.Errorf("the attempt gets %v", ask.Within)
			}
			_ = line[1].Silent(errLate)
		}
		r.ask(line[0], 0)
		refused(line[0], 3) // three waiters of other processes
		if position, _, _ := line[2].Heard(); position != 5 {
			t.Errorf("the third waiter has position %d, want 5", position)
		}
		line[3].Leave()
		if ask := r.ask(last, 0); ask.Place.IsZero() {
			t.Error("the last waiter asks without a place")
		}
	})
}

// Plain waiters before a fair one take places as well: the store serves it after them.
func TestPlainBeforeFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		r.traits.Notifies = false
		plain, last := r.join(exclusive, "plain", nil), r.join(fair, "fair", nil)
		after := r.join(exclusive, "after", nil)
		for _, w := range []*waitline.Waiter{plain, last} {
			if r.ask(w, 0).Place.IsZero() {
				t.Errorf("%s asks without a place", w.LockID)
			}
			refused(w, 0)
		}
		r.rest(2*time.Second, after)
		r.Wake("r")
		r.ask(plain, 0) // the store does not count it, but it is still the head
		r.rest(0, last)
	})
}

// The store decides which waiter it serves first: that one becomes the head.
func TestStoreOrdersTheLine(t *testing.T) {
	// The line is a, b, c, d. A refused waiter gets the places that are ahead.
	tests := []struct {
		name     string
		refused  int
		position int
		ahead    []int
		want     string // the order
	}{
		{"as it was", 0, 0, nil, "abcd"},
		{"one is before the head", 0, 1, []int{2}, "cabd"},
		{"two are before the head", 0, 2, []int{3, 1}, "dbac"},
		{"not all are named", 2, 4, []int{3}, "abdc"},
		{"one comes before two", 3, 1, []int{0}, "adbc"},
		{"one comes first", 2, 0, nil, "cabd"},
		{"its own place is named", 2, driver.NoPlace, []int{0, 2, 1}, "acbd"},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			r := newRoom(t, 16)
			line, places := fairLine(r, 4)
			head := line[test.refused]
			r.rest(0, line[1:]...)
			r.ask(head, 3*time.Second)
			var ahead []driver.PlaceID
			for _, i := range test.ahead {
				ahead = append(ahead, places[i])
			}
			refused(head, test.position, named(ahead...)...)
			byPosition := make([]byte, len(line))
			first, _, _ := line[test.want[0]-'a'].Heard()
			for _, w := range line {
				position, _, _ := w.Heard()
				byPosition[position-first] = w.LockID[0]
			}
			if string(byPosition) != test.want {
				t.Errorf("the order is %s, want %s", byPosition, test.want)
			}
			if first := line[test.want[0]-'a']; first != head {
				r.ask(first, 0) // it became the head, and asks at each signal from now on
				refused(first, 0)
				r.Wake("r")
				r.ask(first, 0)
			}
		})
	}
}

// A waiter that comes from another process already has its place.
func TestPlaceFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		own := []driver.PlaceID{driver.NewPlaceID(), driver.NewPlaceID(), driver.NewPlaceID()}
		comes := func(lockID string, i int, atOnce bool) *waitline.Waiter {
			return r.join(fair, lockID, func(w *waitline.Waiter) { w.Place, w.AtOnce = own[i], atOnce })
		}
		a := r.join(fair, "a", nil)
		b, c, d := comes("b", 0, false), comes("c", 1, false), comes("d", 2, true)
		r.ask(a, 0)
		if ask := r.ask(d, 0); !ask.Place.IsZero() {
			t.Error("the waiter asks out of turn")
		}
		refused(a, driver.NoPlace, named(own[:2]...)...)
		for i, w := range []*waitline.Waiter{c, b} {
			if ask := r.ask(w, 0); ask.Place != own[1-i] {
				t.Errorf("the waiter asks with place %v, its own is %v", ask.Place, own[1-i])
			}
			refused(w, 1-i, named(own[:1-i]...)...)
		}
		r.rest(0, a)
		r.Wake("r")
		r.ask(b, 0) // the head
		refused(d, driver.NoPlace, named(own...)...)
		if ask := r.ask(d, 0); ask.Place != own[2] {
			t.Errorf("the waiter asks with place %v, its own is %v", ask.Place, own[2])
		}
	})
}

// A waiter that comes back with its key gets its old position and place, and is the head if
// it is the first. A waiter that still waits there is ended.
func TestComeback(t *testing.T) {
	for i := range 4 {
		away, at := i%2 == 0, i/2
		bubble(t, "", func(t *testing.T) {
			r := newRoom(t, 16)
			r.traits.Notifies = false
			line, places := fairLine(r, 4)
			old := line[at]
			back := func() *waitline.Waiter {
				return r.join(fair, "back", func(w *waitline.Waiter) { w.Key, w.AtOnce = old.Key, true })
			}
			var w *waitline.Waiter
			if away {
				if ask, due := old.KeepPlace(); !due || ask.Place != places[at] {
					t.Errorf("the last attempt is %v, due: %v", ask, due)
				}
				refused(old, at)
				if _, due := old.KeepPlace(); due {
					t.Error("a second last attempt is due")
				}
				old.Away(7 * time.Second)
				if n := len(r.Waiting()); n != 3 {
					t.Errorf("%d waiters, want 3", n)
				}
				time.Sleep(6 * time.Second)
				w = back()
			} else {
				r.ask(old, 3*time.Second)
				refused(old, at)
				time.AfterFunc(time.Millisecond, func() { w = back() })
				if _, err := turn(old, 2*time.Millisecond); !errors.Is(err, waitline.ErrReplaced) {
					t.Errorf("the old waiter ended with error %v", err)
				}
				synctest.Wait() // until w is set
			}
			old.Leave() // does not affect the new one
			old.Away(time.Second)
			if ask := r.ask(w, 0); ask.Place != places[at] {
				t.Errorf("the waiter asks with place %v, had %v", ask.Place, places[at])
			}
			_ = w.Silent(errLate)
			if at == 0 {
				r.Wake("r")
				r.ask(w, 0) // it is the head
			} else {
				r.ask(w, time.Second)
			}
			refused(w, at)
			time.Sleep(2 * time.Second)
			if position, _, _ := w.Heard(); position != at {
				t.Errorf("the waiter has position %d", position)
			}
			if at == 0 {
				r.Wake("r")
			} else {
				line[0].Leave()
			}
			r.ask(w, 0)

			// A waiter for another kind of hold is a new one.
			other := r.join(exclusive, "other", func(w *waitline.Waiter) { w.Key = line[2].Key })
			r.ends(line[2], waitline.ErrReplaced)
			if position, _, _ := other.Heard(); position != 3-at {
				t.Errorf("the new waiter has position %d", position)
			}
			for _, w := range append(line, w, other) {
				w.Leave()
			}
			if used, _ := r.Kept(); used != 0 {
				t.Errorf("%d lines are left", used)
			}
		})
	}
}

// A waiter that does not come back in time is dropped, and so is one beyond the limit.
func TestAwayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		r.MostAway = 3
		first := r.join(fair, "first", nil)
		r.ask(first, 0)
		refused(first, 0)
		unplaced, next := r.join(fair, "unplaced", keyed("")), r.join(fair, "next", nil)
		r.ask(unplaced, 0)
		_ = unplaced.Silent(errLate)
		unplaced.Away(time.Second / 2)
		r.ask(next, 0)
		next.Leave()
		first.Leave()
		time.Sleep(time.Second)
		line, _ := fairLine(r, 4)
		position := func(want int) {
			t.Helper()
			synctest.Wait()
			if got, _, _ := line[3].Heard(); got != want {
				t.Errorf("%d waiters are before the last one, want %d", got, want)
			}
		}
		line[0].Away(time.Minute)
		position(2)
		line[1].Away(time.Second)
		position(2)
		r.ask(line[2], 0)
		time.Sleep(time.Second)
		position(1)
		line[2].Away(time.Minute)
		r.Close()
		line[3].Away(time.Minute)
		position(driver.NoPlace)
	})
}

// Giving up a key ends the wait of its waiter, at once or after its answer.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		a, b := r.join(fair, "a", keyed("a")), r.join(fair, "b", keyed("b"))
		r.ask(a, 0)
		r.Forget("a")
		for range 2 {
			r.ask(b, 0)
			refused(b, 0)
		}
		r.Forget("nobody's")
		time.AfterFunc(time.Millisecond, func() { r.Forget("b") })
		if _, err := turn(b, 2*time.Millisecond); !errors.Is(err, waitline.ErrForgotten) {
			t.Errorf("Turn after Forget: error %v", err)
		}
		if err := a.Granted(); !errors.Is(err, waitline.ErrForgotten) {
			t.Errorf("Granted after Forget: error %v", err)
		}
		refused(a, 0)
		if err := a.Silent(errors.New("silent")); err != nil {
			t.Errorf("Silent after Forget: error %v", err)
		}
		r.ends(a, waitline.ErrForgotten)
		a.Leave()
	})
}
