package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

var errLate = errors.New("no answer")

// room has a Cleaner and plays the store.
type room struct {
	*cleanup.Cleaner
	t     *testing.T
	scope *storecall.Scope
	send  func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) // by default it finds all of holds

	mu    sync.Mutex
	holds map[driver.HoldRef]bool
	sent  []sent
	freed []string
	taken []time.Duration // when the store has answered the release of a place
}

// sent is a request that the store got.
type sent struct {
	driver.ReleaseRequest
	at time.Duration
}

func newRoom(t *testing.T) *room {
	began := time.Now()
	r := &room{t: t, holds: make(map[driver.HoldRef]bool)}
	r.send = r.release
	r.scope = storecall.NewScope(func() time.Duration { return time.Since(began) })
	r.Cleaner = cleanup.New(cleanup.Config{
		Scope: r.scope,
		Send: func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
			r.Len() // it would hang if the mutex were held
			r.mu.Lock()
			for _, q := range qs {
				r.sent = append(r.sent, sent{q, r.scope.Clock()})
			}
			send := r.send
			r.mu.Unlock()
			return send(ctx, qs)
		},
		Freed: func(resource string) {
			r.Len()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.freed = append(r.freed, resource)
		},
	})
	t.Cleanup(func() { r.Close(0); r.scope.End() })
	return r
}

// release is a store that answers.
func (r *room) release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	results := make([]driver.ReleaseResult, len(qs))
	for i, q := range qs {
		key := q.HoldRef
		key.Token = 0
		results[i].Found = r.holds[key]
		delete(r.holds, key)
		if !q.Place.IsZero() {
			r.taken = append(r.taken, r.scope.Clock())
		}
	}
	return results, nil
}

func silent(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return nil, errLate
}

func hang(ctx context.Context, _ []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func ref(resource string) driver.HoldRef {
	return driver.HoldRef{Resource: resource, LockID: "a", HoldID: driver.HoldID{1}}
}

// times returns when the store was asked for each hold, since the last call.
func (r *room) times() (at []time.Duration) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sent {
		at = append(at, s.at)
	}
	r.sent = nil
	return at
}

func (r *room) grant(ref driver.HoldRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds[ref] = true
}

// answers makes the store answer in the given way from now on.
func (r *room) answers(send func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send = send
}

// kept fails unless there are n clean-ups.
func (r *room) kept(want int) {
	r.t.Helper()
	synctest.Wait()
	if n := r.Len(); n != want {
		r.t.Fatalf("after %v there are %d clean-ups, want %d", r.scope.Clock(), n, want)
	}
}

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// What ends a clean-up depends on what may still arrive.
func TestEnds(t *testing.T) {
	const at, until = 2 * time.Second, time.Minute // the store answers from at on
	tests := []struct {
		name    string
		orphan  cleanup.Orphan
		granted time.Duration // when it arrives; 0: never
		ends    time.Duration // approximately
	}{
		{"granted", cleanup.Orphan{}, time.Millisecond, at},
		{"granted, and gone", cleanup.Orphan{}, 0, at},
		{"granted, no end", cleanup.Orphan{Endless: true, Until: -until}, 0, at},
		{"one attempt, there", cleanup.Orphan{Attempts: 1}, time.Second, at + cleanup.CopiesArrive},
		{"one attempt, late", cleanup.Orphan{Attempts: 1}, 20 * time.Second, 30 * time.Second},
		{"one attempt, late for copies", cleanup.Orphan{Attempts: 1}, 55 * time.Second, until},
		{"one attempt, never", cleanup.Orphan{Attempts: 1}, 0, until},
		{"two attempts", cleanup.Orphan{Attempts: 2}, time.Second, until},
		{"many attempts", cleanup.Orphan{Attempts: 256}, time.Second, until},
		{"a place", cleanup.Orphan{PlaceOnly: true, Place: driver.NewPlaceID()}, 0, at},
	}
	for _, test := range tests {
		bubble(t, test.name, func(t *testing.T) {
			r := newRoom(t)
			r.send = silent
			o := test.orphan
			o.Ref, o.Until = ref("r"), o.Until+until
			asked := r.Add(o)
			if test.granted != 0 {
				time.AfterFunc(test.granted, func() { r.grant(o.Ref) })
			}
			time.Sleep(at)
			select {
			case <-asked:
			default:
				t.Error("Add's channel was not closed after the first release")
			}
			if at := r.times(); len(at) < 5 || at[0] != 0 {
				t.Errorf("unanswered releases at %v", at)
			}
			r.answers(r.release)
			time.Sleep(test.ends - at - time.Millisecond)
			r.kept(1)
			time.Sleep(10 * time.Second)
			r.kept(0)
			if (test.granted != 0) != slices.Equal(r.freed, []string{"r"}) || len(r.holds) != 0 {
				t.Errorf("freed %v, left %v", r.freed, r.holds)
			}
		})
	}
	bubble(t, "no answer at the end", func(t *testing.T) {
		r := newRoom(t)
		r.Add(cleanup.Orphan{Ref: ref("r"), Attempts: 1, Until: until})
		time.Sleep(until - 12*time.Second)
		r.grant(ref("r")) // it would live as long again
		r.answers(silent)
		time.Sleep(30 * time.Second)
		r.kept(1)
		r.answers(r.release)
		time.Sleep(10 * time.Second)
		r.kept(0)
		if len(r.holds) != 0 {
			t.Error("the hold was not released")
		}
	})
	bubble(t, "no answer for a copy", func(t *testing.T) {
		r := newRoom(t)
		r.grant(ref("r"))
		r.Add(cleanup.Orphan{Ref: ref("r"), Attempts: 1, Until: until})
		time.Sleep(cleanup.CopiesArrive - time.Second)
		r.grant(ref("r")) // the copy, which lives as long
		r.answers(silent)
		time.Sleep(40 * time.Second)
		r.kept(1)
		r.answers(r.release)
		time.Sleep(2 * time.Second)
		r.kept(0)
		if len(r.holds) != 0 {
			t.Error("the copy's hold was not released")
		}
	})
	bubble(t, "no answer for a place", func(t *testing.T) {
		r := newRoom(t)
		place := driver.NewPlaceID()
		r.Add(cleanup.Orphan{Ref: ref("r"), Attempts: 2, Place: place, Until: until})
		r.TakeOut(place)
		time.Sleep(cleanup.CopiesArrive - time.Second)
		r.answers(silent)
		time.Sleep(5 * time.Second)
		r.times()
		r.answers(r.release)
		time.Sleep(2 * time.Second)
		r.times()
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.taken); n == 0 || r.taken[n-1] < cleanup.CopiesArrive+4*time.Second {
			t.Errorf("the place was last released at %v", r.taken)
		}
	})
	bubble(t, "no answer", func(t *testing.T) {
		r := newRoom(t)
		r.send = silent
		r.Add(cleanup.Orphan{Ref: ref("a"), Until: until})
		r.Add(cleanup.Orphan{Ref: ref("b"), Until: until, Endless: true})
		r.Add(cleanup.Orphan{Ref: ref("c"), Attempts: 1, Until: until})
		time.Sleep(until + 10*time.Second)
		r.kept(2)
		time.Sleep(until)
		r.kept(1)
		time.Sleep(time.Hour)
		r.kept(1)
	})
}

// From delays the first release, and an earlier release leaves the hold until then.
func TestFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		o := cleanup.Orphan{Ref: ref("r"), Attempts: 2, From: 10 * time.Second, Until: time.Minute}
		o.Ref.Token = 5
		o.Waits = true
		r.Add(o)
		time.Sleep(5 * time.Second)
		if at := r.times(); len(at) != 0 {
			t.Errorf("releases at %v", at)
		}
		o.Ref.Token, o.Waits, o.From = 0, false, 8*time.Second // it need not wait
		r.Add(o)
		r.kept(1)
		time.Sleep(3*time.Second + time.Millisecond)
		r.mu.Lock()
		first := r.sent[0]
		r.mu.Unlock()
		if first.at != 8*time.Second || first.After != 0 || first.Token != 0 {
			t.Errorf("first release %+v", first)
		}
		r.NotBefore(o.Ref, 30*time.Second)
		r.times()
		time.Sleep(12 * time.Second)
		r.mu.Lock()
		next := r.sent[0]
		r.mu.Unlock()
		if next.After != 30*time.Second-next.at {
			t.Errorf("a release at %v leaves it for %v", next.at, next.After)
		}
	})
}

// Attempts that are under way would take a given-up place again: it is released with them,
// about once a second, for as long as they may arrive.
func TestTakeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		place := driver.NewPlaceID()
		r.Add(cleanup.Orphan{Ref: ref("r"), Attempts: 1, Place: place, Until: time.Second})
		r.Add(cleanup.Orphan{Ref: ref("other"), Attempts: 1, Place: driver.NewPlaceID(), Until: time.Second})
		r.kept(2)
		r.TakeOut(place)
		time.Sleep(cleanup.CopiesArrive - time.Millisecond)
		r.kept(1)
		with := r.times()
		time.Sleep(5 * time.Second)
		r.kept(0)
		if gap := maxGap(with); gap > 2500*time.Millisecond {
			t.Errorf("releases at %v", with)
		}
	})
	// A copy of an attempt that arrives after the attempt was found is released too.
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		place := driver.NewPlaceID()
		r.Add(cleanup.Orphan{Ref: ref("r"), Attempts: 1, Place: place, Until: time.Minute})
		r.TakeOut(place)
		for range 2 {
			time.Sleep(cleanup.CopiesArrive - time.Second)
			r.grant(ref("r"))
		}
		time.Sleep(cleanup.CopiesArrive)
		r.kept(0)
		if r.holds[ref("r")] {
			t.Error("the copy was not released")
		}
	})
	// The release of the place continues even if the hold turns out to be in use during a
	// release.
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		place, answer := driver.NewPlaceID(), make(chan struct{})
		r.send = func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
			<-answer
			return r.release(ctx, qs)
		}
		o := cleanup.Orphan{Ref: ref("r"), Attempts: 1, Place: place, Until: time.Minute}
		r.Add(o)
		r.TakeOut(place)
		synctest.Wait()
		r.Spare(o.Ref)
		r.mu.Lock()
		r.sent = nil
		r.mu.Unlock()
		close(answer)
		time.Sleep(30 * time.Second)
		r.kept(0)
		if len(r.sent) == 0 {
			t.Error("the place was not released")
		}
		for _, s := range r.sent {
			if !s.HoldID.IsZero() || s.Place != place {
				t.Errorf("sent %+v", s)
			}
		}
	})
}

func maxGap(at []time.Duration) (gap time.Duration) {
	for i := range at[1:] {
		gap = max(gap, at[i+1]-at[i])
	}
	return gap
}

// If a clean-up is ended while its release is under way, the answer does not bring it back
// and does not affect the next clean-up of the same hold.
func TestForget(t *testing.T) {
	for _, spare := range []bool{false, true} {
		bubble(t, "", func(t *testing.T) {
			r := newRoom(t)
			answer := make(chan struct{})
			r.send = func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
				<-answer
				return make([]driver.ReleaseResult, 1), nil
			}
			o := cleanup.Orphan{Ref: ref("r"), Until: time.Minute}
			r.Add(o)
			r.times()
			forget := r.Forget
			if spare {
				forget = r.Spare
			}
			forget(o.Ref)
			r.kept(0)
			o.From = 10 * time.Second
			r.Add(o)
			close(answer)
			time.Sleep(5 * time.Second)
			r.kept(1)
			forget(o.Ref)
			time.Sleep(time.Minute)
			if at := r.times(); len(at) != 0 {
				t.Errorf("released again at %v", at)
			}
		})
	}
}

// A hold that is in use is not released, nor one that may be in use.
func TestUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		var used bool
		failed := errLate
		r.Used = func(_ context.Context, ref driver.HoldRef) (bool, error) {
			r.Len()
			r.mu.Lock()
			defer r.mu.Unlock()
			return used && ref.Resource == "used", failed
		}
		for _, resource := range []string{"used", "unused"} {
			r.grant(ref(resource))
			r.Add(cleanup.Orphan{Ref: ref(resource), Attempts: 1, Until: time.Minute})
		}
		time.Sleep(5 * time.Second)
		if at := r.times(); len(at) != 0 {
			t.Errorf("released at %v", at)
		}
		r.mu.Lock()
		used, failed = true, nil
		r.mu.Unlock()
		time.Sleep(5 * time.Second)
		r.kept(1)
		if !slices.Equal(r.freed, []string{"unused"}) {
			t.Errorf("freed %v", r.freed)
		}
	})
}

// A release that fails or hangs delays no other.
func TestFailuresDelayNothing(t *testing.T) {
	bubble(t, "one", func(t *testing.T) {
		r := newRoom(t)
		r.send = func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
			if slices.ContainsFunc(qs, func(q driver.ReleaseRequest) bool { return q.Resource == "poison" }) {
				return hang(ctx, qs)
			}
			return r.release(ctx, qs)
		}
		r.Add(cleanup.Orphan{Ref: ref("poison"), Endless: true})
		for i := range 199 {
			r.Add(cleanup.Orphan{Ref: ref(fmt.Sprint(i)), Endless: true})
		}
		time.Sleep(45 * time.Second)
		r.kept(1)
		for range 20 {
			time.Sleep(rand.N(10 * time.Second))
			r.Add(cleanup.Orphan{Ref: ref("more"), Endless: true})
			r.kept(1)
		}
	})
	for takes, each := range map[time.Duration]time.Duration{
		0: time.Second / 2, 600 * time.Millisecond: time.Second / 2, time.Minute: 4 * time.Second,
	} {
		bubble(t, fmt.Sprintf("many that fail after %v", takes), func(t *testing.T) {
			r := newRoom(t)
			r.send = silent
			r.grant(ref("good"))
			r.Add(cleanup.Orphan{Ref: ref("good"), Endless: true})
			time.Sleep(3 * time.Second)
			r.answers(func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
				if !slices.ContainsFunc(qs, func(q driver.ReleaseRequest) bool { return q.Resource == "bad" }) {
					return r.release(ctx, qs)
				}
				select {
				case <-time.After(takes):
					return nil, errLate
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			for range 2 * time.Minute / each {
				time.Sleep(each)
				o := cleanup.Orphan{Ref: ref("bad"), Attempts: 1, From: r.scope.Clock(), Until: r.scope.Clock() + 30*time.Second}
				o.Ref.HoldID = driver.NewHoldID()
				r.Add(o)
			}
			if len(r.holds) != 0 {
				t.Error("after two minutes the hold is not released")
			}
		})
	}
}

// After Close each orphan, also a later one, is released up to three times, and everything
// ends in time, whatever hangs.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.Add(cleanup.Orphan{Ref: ref("a"), Attempts: 2, From: time.Hour, Until: 2 * time.Hour})
		r.Close(4 * time.Second)
		r.scope.End()
		r.Close(time.Hour) // a second Close does nothing
		r.kept(1)
		time.Sleep(500 * time.Millisecond)
		r.kept(0)
		if at := r.times(); len(at) != 3 || at[0] > 20*time.Millisecond || at[2]-at[1] <= at[1]-at[0] {
			t.Errorf("released at %v", at)
		}
		r.answers(silent)
		r.Add(cleanup.Orphan{Ref: ref("b"), Attempts: 2, Until: time.Hour})
		time.Sleep(3 * time.Second)
		if at := r.times(); len(at) < 3 {
			t.Errorf("a later orphan was released at %v", at)
		}
		time.Sleep(500*time.Millisecond + time.Millisecond)
		r.times()
		time.Sleep(time.Hour)
		if at := r.times(); len(at) != 0 {
			t.Errorf("the clean-up goes on at %v", at)
		}
	})
	bubble(t, "hanging call", func(t *testing.T) {
		r := newRoom(t)
		r.send = func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
			time.Sleep(time.Minute) // it ignores its ctx
			return nil, errLate
		}
		r.Add(cleanup.Orphan{Ref: ref("poison"), Endless: true})
		time.Sleep(time.Second)
		r.answers(func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
			if slices.ContainsFunc(qs, func(q driver.ReleaseRequest) bool { return q.Resource == "poison" }) {
				return hang(ctx, qs)
			}
			return r.release(ctx, qs)
		})
		for i := range 199 {
			r.grant(ref(fmt.Sprint(i)))
			r.Add(cleanup.Orphan{Ref: ref(fmt.Sprint(i)), Attempts: 1, Until: time.Hour})
		}
		closed := r.scope.Clock()
		r.Close(closed + 4*time.Second)
		r.scope.End()
		time.Sleep(4 * time.Second)
		r.times()
		if len(r.holds) != 0 {
			t.Errorf("%d holds were not released", len(r.holds))
		}
		time.Sleep(time.Hour)
		if at := r.times(); len(at) != 0 {
			t.Errorf("the clean-up goes on at %v", at)
		}
	})
}

// Attempts that arrive at any time before the end of their clean-ups leave nothing behind,
// whatever gets lost.
func TestRandomOrphans(t *testing.T) {
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(t)
			r.send = func(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
				time.Sleep(rand.N(time.Second))
				results, err := r.release(ctx, qs)
				switch rand.N(10) {
				case 0:
					return nil, errLate
				case 1:
					return results[:rand.N(len(results))], err
				}
				return results, err
			}
			for i := range 100 {
				o := cleanup.Orphan{Ref: ref(fmt.Sprint(i)), Attempts: rand.N(3), Until: rand.N(5 * time.Minute)}
				if o.Attempts == 0 {
					r.grant(o.Ref)
				}
				for range o.Attempts {
					time.AfterFunc(rand.N(o.Until), func() { r.grant(o.Ref) })
				}
				r.Add(o)
			}
			time.Sleep(6 * time.Minute)
			r.kept(0)
			if len(r.holds) != 0 {
				t.Errorf("not released: %v", r.holds)
			}
		})
	}
}
