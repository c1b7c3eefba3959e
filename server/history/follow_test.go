package history_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
	"github.com/holdfast-go/holdfast/server/sight"
)

// world is a store with a history of it.
type world struct {
	t      *testing.T
	store  driver.Store
	looker *sight.Looker
	log    *history.Log
	file   string
	sees   sees
	vague  bool // ends count as of when they can have been first
}

// sees is what becomes of looks.
type sees struct {
	fail  atomic.Bool
	hangs atomic.Int64 // for how long until they read the store
	late  atomic.Int64 // for how long from then on
	many  atomic.Bool  // there are so many records that they are cut
}

// in runs the test in a bubble, with a history that looks at a store in memory.
func in(t *testing.T, test func(*testing.T, *world)) {
	file := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memlock.New(nil), file: file}
		w.start()
		defer func() { w.stop() }()
		test(t, w)
	})
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.log, err = historyfile.Open(w.t.Context(), w.file, &historyfile.Options{Options: history.Options{Name: "one"}}); err != nil {
		w.t.Fatal(err)
	}
	w.looker = sight.New(&seen{w.store, &w.sees}, nil)
	w.log.Follow(w.looker)
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.log.Close(); err != nil {
		w.t.Error(err)
	}
	w.looker.Close()
}

// seen is a store as looks see it.
type seen struct {
	driver.Store
	sees *sees
}

func (s *seen) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if s.sees.fail.Load() {
			yield(driver.Status{}, errors.New("the store is down"))
			return
		}
		// No timer without a time: two goroutines of a bubble that ask timers which are
		// due crash the race detector of Go 1.26 (go.dev/issue/78156).
		if hangs := time.Duration(s.sees.hangs.Load()); hangs > 0 {
			select {
			case <-time.After(hangs):
			case <-ctx.Done():
				yield(driver.Status{}, ctx.Err())
				return
			}
		}
		var all []driver.Status
		for h, err := range s.Store.List(ctx, f) {
			if err != nil {
				yield(h, err)
				return
			}
			all = append(all, h)
		}
		time.Sleep(time.Duration(s.sees.late.Load()))
		if s.sees.many.Load() {
			for range sight.MaxRows + 1 {
				if !yield(driver.Status{Resource: "a", Released: true, Left: time.Hour}, nil) {
					return
				}
			}
		}
		for _, h := range all {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func (s *seen) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, s.Store, f)
}

// hold acquires in the store, as a program does that knows no server.
func (w *world) hold(resource string, ttl time.Duration) driver.HoldRef {
	w.t.Helper()
	return w.acquire(driver.AcquireRequest{
		Resource: resource, LockID: "lock", HoldID: driver.NewHoldID(), TTL: ttl, Details: driver.Details{Owner: "ada", Host: "engine", Comment: "for a test"},
	})
}

// share acquires a shared hold of an hour in the store.
func (w *world) share(resource string, id driver.HoldID) driver.HoldRef {
	w.t.Helper()
	return w.acquire(driver.AcquireRequest{Resource: resource, LockID: id.String(), HoldID: id, Mode: driver.Shared, TTL: time.Hour})
}

func (w *world) acquire(q driver.AcquireRequest) driver.HoldRef {
	w.t.Helper()
	g, err := w.store.Acquire(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

func (w *world) release(h driver.HoldRef) {
	w.t.Helper()
	if rs, err := w.store.Release(w.t.Context(), []driver.ReleaseRequest{{HoldRef: h}}); err != nil || rs[0].Err != nil || !rs[0].Found {
		w.t.Fatalf("not released: %v, %v", rs, err)
	}
}

func (w *world) renew(h driver.HoldRef, ttl time.Duration) {
	w.t.Helper()
	if rs, err := w.store.Renew(w.t.Context(), []driver.RenewRequest{{HoldRef: h, TTL: ttl}}); err != nil || rs[0].Err != nil {
		w.t.Fatalf("not renewed: %v, %v", rs, err)
	}
}

// granted tells the history that this server has granted the hold.
func (w *world) granted(h driver.HoldRef, left time.Duration) {
	w.log.Granted(driver.Status{Resource: h.Resource, LockID: h.LockID, HoldID: h.HoldID, Token: h.Token, Left: left, Details: driver.Details{Owner: "ada", Host: "engine"}})
}

// pass lets looks see what there is.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// events returns what became of the resource, the oldest first.
func (w *world) events(resource string) []history.Event {
	w.t.Helper()
	w.pass(0)
	events, err := w.log.Events(w.t.Context(), history.Query{Resource: resource})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
	return events
}

// kinds returns their kinds in one line.
func kinds(events []history.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.Kind))
	}
	return strings.Join(all, " ")
}

func (w *world) want(resource, kindsWanted string) []history.Event {
	w.t.Helper()
	events := w.events(resource)
	if got := kinds(events); got != kindsWanted {
		w.t.Errorf("%s: got %q, want %q", resource, got, kindsWanted)
	}
	return events
}

const look = 1100 * time.Millisecond // the time until the next look has been taken

func TestOwnHold(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("backup", time.Minute)
		w.granted(h, time.Minute)
		w.granted(h, time.Minute) // the answer got lost
		w.pass(20 * time.Second)
		w.renew(h, time.Minute)
		w.log.Renewed(h, time.Now(), time.Minute)
		w.pass(10 * time.Second)
		w.release(h)
		w.log.Released(driver.HoldRef{Resource: h.Resource, HoldID: h.HoldID}, time.Now()) // without its token
		w.log.Released(h, time.Now())
		w.pass(5 * look)
		events := w.want("backup", "granted released")
		first, last := events[0], events[1]
		if first.Ref != wire.RefOf(h.HoldID) || first.Token != h.Token || first.Owner != "ada" || first.Host != "engine" || first.Within != 0 || first.Held != 0 {
			t.Errorf("began with %+v", first)
		}
		if last.Ref != first.Ref || last.Token != h.Token || last.Owner != "ada" || last.Held != 30*time.Second || last.RenewedAgo != 10*time.Second || last.Within != 0 {
			t.Errorf("ended with %+v", last)
		}
	})
}

// Holds of others are what looks show.
func TestHoldOfOthers(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		h := w.hold("backup", time.Hour)
		w.pass(10 * time.Second)
		w.renew(h, time.Hour)
		w.pass(10 * time.Second)
		w.release(h)
		w.pass(look)
		events := w.want("backup", "seen gone")
		if e := events[0]; e.Within != time.Second || e.Held < 0 || e.Held > time.Second || e.Owner != "ada" || e.Comment != "for a test" {
			t.Errorf("began with %+v", e)
		}
		if e := events[1]; e.Held < 20*time.Second || e.Held > 21*time.Second || e.RenewedAgo < 10*time.Second || e.RenewedAgo > 11*time.Second || e.Owner != "ada" {
			t.Errorf("ended with %+v", e)
		}
		if s := w.log.State(); !s.Looks || s.Period != time.Second || s.LooksFail != nil || s.Cut || s.Name != "one" || s.Noted != 2 || s.Dropped != 0 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestExpires(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("backup", 30*time.Second)
		w.pass(10 * time.Second)
		w.renew(h, 30*time.Second)
		w.pass(31 * time.Second)
		events := w.want("backup", "seen expired")
		if e := events[1]; e.RenewedAgo < 30*time.Second || e.RenewedAgo > 31*time.Second {
			t.Errorf("ended with %+v", e)
		}
		w.log.Lost(h) // the holder notices
		w.want("backup", "seen expired")
	})
}

// A hold that is short for looks may have been released.
func TestShortHoldIsNotExpired(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(500 * time.Millisecond)
		w.hold("backup", 1400*time.Millisecond)
		w.pass(look)
		w.pass(look)
		w.want("backup", "seen gone")
	})
}

func TestForcedAndLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		forced, lost, gone := w.hold("forced", time.Hour), w.hold("lost", time.Hour), w.hold("gone", time.Hour)
		for _, h := range []driver.HoldRef{forced, lost, gone} {
			w.granted(h, time.Hour)
		}
		w.pass(look)
		w.release(forced)
		w.log.Forced(forced, time.Now(), "ops", "it hung")
		w.log.Lost(forced) // the holder notices, as it should
		w.release(lost)
		w.log.Lost(lost)
		w.log.Lost(lost)
		w.release(gone)
		w.pass(look)
		w.log.Lost(gone)
		w.log.Lost(driver.HoldRef{Resource: "never", LockID: "x", HoldID: driver.NewHoldID(), Token: 1})
		if e := w.want("forced", "granted forced")[1]; e.Caller != "ops" || e.Reason != "it hung" {
			t.Errorf("ended with %+v", e)
		}
		w.want("lost", "granted lost")
		w.want("gone", "granted gone lost")
		w.want("never", "")
		losses, err := w.log.Losses(t.Context(), time.Now().Add(-time.Hour), 0)
		if got := kinds(losses); err != nil || got != "lost lost forced" {
			t.Errorf("losses: %s, %v", got, err)
		}
		w.pass(2 * time.Hour)
		if losses, err := w.log.Losses(t.Context(), time.Now().Add(-time.Hour), 0); err != nil || len(losses) > 0 {
			t.Errorf("losses: %v, %v", losses, err)
		}
	})
}

// Nobody knows how a hold ended whose time was over while looks failed, nor when: it may have
// been renewed elsewhere. It had ended before the server granted the resource to another.
func TestOutage(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		over, taken, kept := w.hold("over", 30*time.Second), w.hold("taken", time.Hour), w.hold("kept", time.Hour)
		for _, h := range []driver.HoldRef{over, taken} {
			w.granted(h, 30*time.Second)
		}
		w.pass(5 * time.Second)
		w.renew(over, 30*time.Second)
		w.log.Renewed(over, time.Now(), 30*time.Second)
		w.pass(look)
		w.sees.fail.Store(true)
		w.pass(20 * time.Second)
		w.release(taken)
		next := w.hold("taken", time.Hour)
		w.granted(next, time.Hour)
		w.release(kept)
		w.pass(60 * time.Second)
		w.sees.fail.Store(false)
		w.pass(40 * time.Second)
		events := w.want("over", "granted lapsed")
		if e := events[1]; e.Held < 85*time.Second || e.Held != e.At.Sub(events[0].At) || e.RenewedAgo != e.Held-5*time.Second || e.Within < 80*time.Second || e.Within > e.Held {
			t.Errorf("over ended with %+v", e)
		}
		events = w.want("taken", "granted granted gone")
		if e := events[2]; e.Token != taken.Token || !e.At.Equal(events[1].At) || e.Held != events[1].At.Sub(events[0].At) {
			t.Errorf("taken ended with %+v, its next began with %+v", e, events[1])
		}
		w.want("kept", "seen gone")
		w.log.Lost(over)
		if events = w.want("over", "granted lapsed lost"); !events[2].At.Equal(events[1].At) || events[2].Held != events[1].Held {
			t.Errorf("over was lost with %+v", events[2])
		}
		if u, err := w.log.Usual(t.Context(), "over"); err != nil || u.Count != 0 {
			t.Errorf("its length counts: %+v, %v", u, err)
		}
		losses, err := w.log.Losses(t.Context(), time.Now().Add(-time.Hour), 0)
		if got := kinds(losses); err != nil || got != "lost lapsed" {
			t.Errorf("losses: %s, %v", got, err)
		}
	})
}

// The history keeps when it did not see all, and which server was not there.
func TestGaps(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		want := func(causes string, lengths ...time.Duration) {
			t.Helper()
			gaps := w.log.State().Gaps
			var got []string
			for i, g := range gaps {
				got = append(got, string(g.Cause))
				if d := g.To.Sub(g.From); i < len(lengths) && !g.To.IsZero() && (d < lengths[i]-2*time.Second || d > lengths[i]+2*time.Second) {
					t.Errorf("gap %d is %v long, want %v", i, d, lengths[i])
				}
			}
			if strings.Join(got, " ") != causes || len(gaps) != len(lengths) {
				t.Errorf("gaps %q, want %q", got, causes)
			}
		}
		w.pass(time.Minute)
		want("")
		w.sees.fail.Store(true)
		w.pass(20 * time.Second)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || !gaps[0].To.IsZero() {
			t.Errorf("while looks fail: %+v", gaps)
		}
		w.sees.fail.Store(false)
		w.pass(time.Minute)
		want("blind", 20*time.Second)
		w.stop()
		w.pass(5 * time.Minute)
		w.start()
		w.pass(time.Minute)
		want("down blind", 5*time.Minute, 20*time.Second)
		w.stop()
		w.start() // at once
		w.pass(time.Minute)
		for range 10 { // now and then
			w.sees.fail.Store(true)
			w.pass(5 * time.Second)
			w.sees.fail.Store(false)
			w.pass(5 * time.Second)
		}
		want("blind down blind", 95*time.Second, 5*time.Minute, 20*time.Second)
	})
}

// A hold had ended when there was one that excludes it, whoever has noted that.
func TestNextEndsHold(t *testing.T) {
	exclusive, shared := driver.Exclusive, driver.Shared
	for _, c := range []struct {
		name         string
		first, other driver.Mode
		ends         bool
	}{
		{"exclusive", exclusive, exclusive, true},
		{"exclusive, then shared", exclusive, shared, true},
		{"shared, then exclusive", shared, exclusive, true},
		{"shared", shared, shared, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				note := func(token uint64, mode driver.Mode) driver.HoldRef {
					h := driver.HoldRef{Resource: "backup", HoldID: driver.NewHoldID(), Token: token}
					w.log.Granted(driver.Status{Resource: h.Resource, HoldID: h.HoldID, Token: token, Mode: mode, Left: time.Hour})
					return h
				}
				w.pass(look) // the next one would miss them
				first := note(1, c.first)
				w.pass(100 * time.Millisecond)
				note(2, c.other)
				w.pass(100 * time.Millisecond)
				w.log.Lost(first)
				w.pass(look)
				var e history.Event
				for _, e = range w.events("backup") {
					if e.Token == first.Token && !e.Kind.Begins() {
						break
					}
				}
				if want := 200 * time.Millisecond; e.Kind != history.Lost || !c.ends && e.Held != want || c.ends && e.Held != want/2 {
					t.Errorf("ended with %+v", e)
				}
			})
		})
	}
}

// A look may show a hold before the server has noted that it granted it.
func TestLookBeforeGrant(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		own, others := w.hold("own", time.Hour), w.hold("others", time.Hour)
		w.pass(time.Millisecond)
		w.granted(own, time.Hour)
		w.pass(3 * look)
		w.release(own)
		w.log.Released(own, time.Now())
		w.release(others)
		w.pass(look)
		w.want("own", "granted released")
		w.want("others", "seen gone")
	})
}

// What was open when the server ended is not noted again, and its end is.
func TestRestart(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		kept, ended := w.hold("kept", time.Hour), w.hold("ended", time.Hour)
		w.granted(kept, time.Hour)
		w.pass(look)
		w.stop()
		w.pass(time.Minute)
		w.release(ended)
		w.start()
		w.pass(look)
		w.want("kept", "granted")
		if e := w.want("ended", "seen gone")[1]; e.Held != driver.Unknown || e.Within != driver.Unknown {
			t.Errorf("ended with %+v", e)
		}
		w.release(kept)
		w.log.Released(kept, time.Now())
		if e := w.want("kept", "granted released")[1]; e.Held < time.Minute || e.Held > time.Minute+5*time.Second {
			t.Errorf("ended with %+v", e)
		}
	})
}

// Somebody who chooses hold IDs can find two of the same ref. They are two holds all the same.
func TestSameRef(t *testing.T) {
	one, two := sameRef()
	in(t, func(t *testing.T, w *world) {
		a, b := w.share("r", one), w.share("r", two)
		w.pass(10 * look)
		w.want("r", "seen seen")
		w.stop()
		w.start()
		w.pass(10 * look)
		w.want("r", "seen seen")
		w.log.Lost(driver.HoldRef{Resource: "r", HoldID: two, Token: a.Token}) // that of the other one
		w.want("r", "seen seen")
		w.release(a)
		w.pass(look)
		if last := w.want("r", "seen seen gone")[2]; last.Token != a.Token {
			t.Errorf("gone is %d, not %d", last.Token, a.Token)
		}
		w.release(b)
		w.log.Released(driver.HoldRef{Resource: "r", HoldID: two}, time.Now()) // a request without a token
		if last := w.want("r", "seen seen gone released")[3]; last.Token != b.Token {
			t.Errorf("released is %d, not %d", last.Token, b.Token)
		}
	})
}

// sameRef returns two hold IDs that have the same ref.
func sameRef() (one, two driver.HoldID) {
	seen := make(map[string]driver.HoldID)
	for {
		id := driver.NewHoldID()
		ref := wire.RefOf(id)
		if other, ok := seen[ref]; ok {
			return other, id
		}
		seen[ref] = id
	}
}

func TestUsual(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for i := range 100 {
			h := w.hold("backup", time.Hour)
			w.granted(h, time.Hour)
			w.pass(time.Duration(i+1) * time.Second)
			w.release(h)
			w.log.Released(h, time.Now())
		}
		w.pass(0)
		u, err := w.log.Usual(t.Context(), "backup")
		if want := (history.Usual{Count: 100, Median: 50 * time.Second, P95: 95 * time.Second}); err != nil || u != want {
			t.Errorf("got %+v, error %v", u, err)
		}
		u, err = w.log.Usual(t.Context(), "nothing")
		if want := (history.Usual{Median: driver.Unknown, P95: driver.Unknown}); err != nil || u != want {
			t.Errorf("got %+v, error %v", u, err)
		}
	})
}

func TestPages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for i := range 25 {
			w.pass(time.Second)
			h := w.hold(fmt.Sprint("r", i%2), time.Hour)
			w.granted(h, time.Hour)
			w.release(h)
			w.log.Released(h, time.Now())
		}
		w.pass(0)
		var numbers []int64
		for q := (history.Query{Resource: "r0", Limit: 10}); ; {
			events, err := w.log.Events(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				numbers = append(numbers, e.Number)
				q.Before = e.Number
			}
		}
		if len(numbers) != 26 {
			t.Errorf("%d events, want 26", len(numbers))
		}
		for i := 1; i < len(numbers); i++ {
			if numbers[i] >= numbers[i-1] {
				t.Errorf("%d after %d", numbers[i], numbers[i-1])
			}
		}
		since, err := w.log.Events(t.Context(), history.Query{Resource: "r0", Since: time.Now().Add(-2 * time.Second)})
		if err != nil || len(since) != 4 {
			t.Errorf("%d events of the last two seconds, error %v", len(since), err)
		}
	})
}

// A look that shows 10,000 changes makes a few transactions.
func TestManyChanges(t *testing.T) {
	s := &counting{memory: new(memory)}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memlock.New(nil)}
		log, err := history.New(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		looker := sight.New(w.store, nil)
		defer looker.Close()
		defer log.Close()
		for i := range 10_000 {
			w.hold(fmt.Sprint(i), time.Hour)
		}
		log.Follow(looker)
		w.pass(2 * time.Second)
		if n := log.State().Noted; n != 10_000 || s.appends > 15 {
			t.Errorf("%d events by %d calls", n, s.appends)
		}
	})
}

type counting struct {
	*memory
	appends int
}

func (c *counting) Append(ctx context.Context, events []history.Event) (time.Time, error) {
	c.appends++
	return c.memory.Append(ctx, events)
}
