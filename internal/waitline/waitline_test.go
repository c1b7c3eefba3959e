package waitline_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

var (
	exclusive = waitline.Kind{}
	fair      = waitline.Kind{Fair: true}
	shared    = waitline.Kind{Mode: driver.Shared}
	two       = waitline.Kind{Mode: driver.Shared, Limit: 2}
	fairRead  = waitline.Kind{Mode: driver.Shared, Fair: true}
)

// room has Lines and plays the store.
type room struct {
	*waitline.Lines
	t       *testing.T
	slept   atomic.Int64
	dropped []waitline.Dropped
	traits  driver.Traits
	watch   func(context.Context) error // called before a subscription begins

	mu   sync.Mutex
	subs []*sub
	told []error // the errors that Watched got
	then func()  // called by Watched, once
}

type sub struct {
	ctx     context.Context
	signals chan struct{}
}

func newRoom(t *testing.T, places int) *room {
	began := time.Now()
	r := &room{t: t, traits: driver.Traits{Queue: true, Notifies: true}}
	scope := storecall.NewScope(func() time.Duration { return time.Since(began) + time.Duration(r.slept.Load()) })
	r.Lines = waitline.New(waitline.Config{
		Scope: scope, Traits: func() driver.Traits { return r.traits }, Watch: r.subscribe, Poll: time.Second,
		Places: places, MostAway: 100,
		Dropped: func(d waitline.Dropped) { r.Waiting(); r.dropped = append(r.dropped, d) },
		Watched: func(_ string, _ time.Time, err error) {
			r.mu.Lock()
			then := r.then
			r.told, r.then = append(r.told, err), nil
			r.mu.Unlock()
			if then != nil {
				then()
			}
		},
	})
	t.Cleanup(func() { r.Close(); scope.End() })
	return r
}

func (r *room) subscribe(ctx context.Context, _ string) (<-chan struct{}, error) {
	s := &sub{ctx, make(chan struct{}, 1)}
	r.mu.Lock()
	r.subs = append(r.subs, s)
	r.mu.Unlock()
	if r.watch != nil {
		if err := r.watch(ctx); err != nil {
			return nil, err
		}
	}
	return s.signals, nil
}

// join adds a waiter to the line "r". change, if set, changes it first.
func (r *room) join(k waitline.Kind, lockID string, change func(*waitline.Waiter)) *waitline.Waiter {
	w := &waitline.Waiter{Resource: "r", LockID: lockID, Kind: k, Timeout: time.Second}
	if change != nil {
		change(w)
	}
	r.Join(w)
	return w
}

func keyed(key string) func(*waitline.Waiter) { return func(w *waitline.Waiter) { w.Key = key } }

func atOnce(w *waitline.Waiter) { w.AtOnce = true }

// turn calls Turn for at most the given time.
func turn(w *waitline.Waiter, within time.Duration) (waitline.Ask, error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(within, 1))
	defer cancel()
	return w.Turn(ctx)
}

// ask fails unless the waiter may ask within the given time.
func (r *room) ask(w *waitline.Waiter, within time.Duration) waitline.Ask {
	r.t.Helper()
	ask, err := turn(w, within)
	if err != nil {
		r.t.Fatalf("%s does not ask within %v: %v", w.LockID, within, err)
	}
	return ask
}

// rest fails if one of the waiters may ask within the given time.
func (r *room) rest(within time.Duration, ws ...*waitline.Waiter) {
	r.t.Helper()
	var all sync.WaitGroup
	for _, w := range ws {
		all.Go(func() {
			if _, err := turn(w, within); !errors.Is(err, context.DeadlineExceeded) {
				r.t.Errorf("%s did not wait for %v: error %v", w.LockID, within, err)
			}
		})
	}
	all.Wait()
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// ends fails unless the waiter's Turn fails with the given error.
func (r *room) ends(w *waitline.Waiter, want error) {
	r.t.Helper()
	if _, err := turn(w, 0); !errors.Is(err, want) {
		r.t.Fatalf("the wait of %s ended with %v, want %v", w.LockID, err, want)
	}
}

// refused reports a refusal, and waits for what it starts.
func refused(w *waitline.Waiter, position int, ahead ...driver.Place) {
	e := &driver.HeldError{Resource: "r", RetryAfter: driver.Forever, Position: position, Waiters: 1}
	e.Holders = []driver.Status{{LockID: "holder", Left: driver.Forever}}
	w.Refused(e, ahead, 0)
	synctest.Wait()
}

// settled lets the waiter ask, get a refusal, subscribe, and ask again for that reason.
func (r *room) settled(w *waitline.Waiter) {
	r.t.Helper()
	for range 2 {
		r.ask(w, 0)
		refused(w, driver.NoPlace)
	}
}

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// While the store refuses, only the head asks, and the line has one subscription.
func TestOnlyTheHeadAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		r.traits.Queue = false
		a, b, c := r.join(exclusive, "a", nil), r.join(exclusive, "b", nil), r.join(exclusive, "c", nil)
		r.settled(a)
		for range 3 {
			r.rest(500*time.Millisecond, a, b, c)
			r.Wake("r")
			r.rest(time.Millisecond, b, c)
			r.ask(a, 0)
			refused(a, driver.NoPlace)
		}
		for _, next := range []*waitline.Waiter{b, c} {
			a.Leave()
			a.Leave() // a second Leave does nothing
			r.ask(next, 0)
			refused(next, driver.NoPlace)
			r.rest(500*time.Millisecond, next)
			a = next
		}
		if n := len(r.subs); n != 1 {
			t.Errorf("%d subscriptions, want 1", n)
		}
		c.Leave()
		synctest.Wait()
		if used, _ := r.Kept(); used != 0 || r.subs[0].ctx.Err() == nil || len(r.Waiting()) != 0 {
			t.Error("the line was not removed")
		}
	})
}

// An invitation counts whenever it comes: while the waiter asks, before it waits again, and
// while it waits.
func TestNoInvitationIsLost(t *testing.T) {
	type scene struct {
		b      *waitline.Waiter // it asks
		invite func()
	}
	behind := func(end func(r *room, a *waitline.Waiter)) func(r *room) scene {
		return func(r *room) scene {
			a, b := r.join(shared, "a", keyed("a")), r.join(shared, "b", atOnce)
			r.settled(a)
			return scene{b, func() { end(r, a) }}
		}
	}
	scenes := map[string]func(r *room) scene{
		"head leaves":    behind(func(_ *room, a *waitline.Waiter) { a.Leave() }),
		"head granted":   behind(func(_ *room, a *waitline.Waiter) { _ = a.Granted() }),
		"head away":      behind(func(_ *room, a *waitline.Waiter) { a.Away(time.Minute) }),
		"head forgotten": behind(func(r *room, _ *waitline.Waiter) { r.Forget("a") }),
		"wake": func(r *room) scene {
			b := r.join(shared, "b", nil)
			r.settled(b)
			r.Wake("r")
			return scene{b, func() { r.Wake("r") }}
		},
		"signal": func(r *room) scene {
			b := r.join(shared, "b", nil)
			r.settled(b)
			r.Wake("r")
			return scene{b, func() { r.subs[0].signals <- struct{}{} }}
		},
		"signals end": func(r *room) scene {
			b := r.join(shared, "b", nil)
			r.settled(b)
			r.Wake("r")
			return scene{b, func() { close(r.subs[0].signals) }}
		},
		"subscription": func(r *room) scene {
			effective := make(chan struct{})
			r.watch = func(context.Context) error { <-effective; return nil }
			b := r.join(shared, "b", nil)
			r.ask(b, 0)
			refused(b, driver.NoPlace)
			r.Wake("r")
			return scene{b, func() { close(effective); synctest.Wait() }}
		},
	}
	for name, play := range scenes {
		bubble(t, name, func(t *testing.T) {
			for _, moment := range []string{"asking", "refused", "waiting"} {
				r := newRoom(t, 1)
				s := play(r)
				r.ask(s.b, 0)
				if moment == "asking" {
					s.invite()
				}
				refused(s.b, driver.NoPlace)
				if moment == "refused" {
					s.invite()
				} else if moment == "waiting" {
					time.AfterFunc(time.Millisecond, s.invite)
				}
				r.ask(s.b, 2*time.Millisecond)
				s.b.Leave()
			}
		})
	}
}

// If the ctx of an invited waiter ends, the next one is invited.
func TestInvitationOfOneThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		a, b, c := r.join(exclusive, "a", nil), r.join(exclusive, "b", nil), r.join(exclusive, "c", nil)
		r.ask(a, 0)
		a.Leave()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Turn(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a Turn whose ctx has ended: error %v", err)
		}
		b.Leave()
		r.ask(c, 0)
	})
}

// After each shared grant as many waiters ask as were granted since the last refusal, if they
// wait for the same kind of hold.
func TestSharedGrantsInvite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		r.traits = driver.Traits{}
		var line []*waitline.Waiter
		for _, k := range []waitline.Kind{two, two, two, two, two, two, two, two, shared, exclusive, shared, shared, shared} {
			line = append(line, r.join(k, "any", nil))
		}
		asking := func(n int) {
			t.Helper()
			for i, w := range line {
				if _, err := turn(w, 0); (err == nil) != (i < n) {
					t.Fatalf("the waiter at %d of %d: error %v; %d may ask", i, len(line), err, n)
				}
			}
		}
		for _, n := range []int{1, 1, 2} {
			asking(n)
			_ = line[0].Granted()
			line = line[1:]
		}
		asking(3)
		for _, w := range line[:3] {
			refused(w, driver.NoPlace)
		}
		asking(0)
		r.Wake("r")
		for _, n := range []int{1, 1, 2, 2, 1, 1, 1, 1, 1, 1} { // a waiter with another limit stops the invitations, and so does an exclusive one
			asking(n)
			_ = line[0].Granted()
			line = line[1:]
		}
	})
}

// With Places 1 the place belongs to the line: the next head takes it over if it waits for
// the same kind of hold. A place that no waiter uses any more is dropped once.
func TestPlaceOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		dropped := func(want ...waitline.Dropped) {
			t.Helper()
			if !slices.Equal(r.dropped, want) {
				t.Errorf("dropped %+v, want %+v", r.dropped, want)
			}
			r.dropped = nil
		}
		time.Sleep(time.Minute)
		a, b, c := r.join(fair, "a", nil), r.join(fair, "b", nil), r.join(fair, "c", nil)
		first := r.ask(a, 0).Place
		refused(a, 0)
		a.Leave()
		if got := r.ask(b, 0).Place; got != first || first.IsZero() {
			t.Errorf("the next waiter asks with place %v, want %v", got, first)
		}
		dropped()
		_ = b.Granted()
		dropped(waitline.Dropped{Resource: "r", LockID: "b", Place: first, Fair: true, Taken: true})
		d := r.join(exclusive, "d", nil)
		second := r.ask(c, 0).Place
		if second == first || second.IsZero() {
			t.Errorf("after a grant the place is %v", second)
		}
		refused(c, 0)
		c.Leave()
		dropped(waitline.Dropped{Resource: "r", LockID: "c", Place: second, Fair: true})
		if ask := r.ask(d, 0); !ask.Place.IsZero() {
			t.Error("an unfair waiter asks with a place at once")
		}
		refused(d, driver.NoPlace)
		plain := r.ask(d, time.Second+time.Millisecond).Place
		d.Leave() // while it asks
		dropped(waitline.Dropped{Resource: "r", LockID: "d", Place: plain})

		// It asks without a place when it takes the place over, and is granted.
		e, f := r.join(fair, "e", nil), r.join(fair, "f", atOnce)
		third := r.ask(e, 0).Place
		r.ask(f, 0)
		e.Leave()
		_ = f.Granted()
		dropped(waitline.Dropped{Resource: "r", LockID: "f", Place: third, Fair: true})
		if _, free := r.Kept(); free != 1 {
			t.Errorf("%d empty lines are kept, want 1", free)
		}
	})
}

// A waiter that is stopped by a hold of its own lock ID lets others overtake it until that
// hold is gone.
func TestStepAside(t *testing.T) {
	bySelf := &driver.HeldError{BySelf: true, RetryAfter: driver.Forever, Position: driver.NoPlace, Holders: []driver.Status{{LockID: "a", Left: 1}}}
	for _, ends := range []string{"refusal", "grant"} {
		bubble(t, ends, func(t *testing.T) {
			r := newRoom(t, 16)
			r.traits = driver.Traits{}
			a := r.join(exclusive, "a", nil)
			r.ask(a, 0)
			a.Refused(bySelf, nil, 0)
			r.rest(time.Millisecond, a) // there is no waiter to let pass
			r.Wake("r")
			r.ask(a, 0)
			b := r.join(exclusive, "b", atOnce)
			a.Refused(bySelf, nil, 0)
			line := []*waitline.Waiter{r.join(exclusive, "c", nil), a, r.join(exclusive, "a", nil)}
			r.ask(b, 0)
			if ends == "grant" {
				_ = b.Granted()
			} else {
				refused(b, driver.NoPlace)
				line = append([]*waitline.Waiter{b}, line...)
			}
			line = append(line, r.join(exclusive, "d", nil))
			for i, w := range line {
				if position, _, _ := w.Heard(); position != i {
					t.Errorf("%s has position %d, want %d", w.LockID, position, i)
				}
			}
		})
	}
}

// A waiter that has stepped aside asks with the line's place when another comes before it.
func TestPlaceOfOneThatStepsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		a, b := r.join(fair, "a", nil), r.join(fair, "b", nil)
		first := r.ask(a, 0).Place
		a.Refused(&driver.HeldError{BySelf: true, Position: driver.NoPlace, Holders: []driver.Status{{LockID: "a", Left: 1}}}, nil, 0)
		if r.ask(b, 0).Place != first {
			t.Error("b has not taken over the place")
		}
		r.rest(10*time.Second, a) // it has no place to keep
		b.Leave()
		if r.ask(a, 15*time.Millisecond).Place != first {
			t.Error("a has not taken over the place")
		}
		c := r.join(fair, "c", nil)
		_ = a.Granted()
		if place := r.ask(c, 0).Place; slices.ContainsFunc(r.dropped, func(d waitline.Dropped) bool { return d.Place == place }) {
			t.Error("c asks with a place that was dropped")
		}
	})
}
