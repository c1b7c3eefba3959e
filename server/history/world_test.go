package history_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
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
	if w.log, err = historyfile.Open(w.t.Context(), w.file, &history.Options{Name: "one"}); err != nil {
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
func (w *world) granted(h driver.HoldRef) {
	w.log.Granted(driver.Status{Resource: h.Resource, HoldID: h.HoldID, Token: h.Token, Details: driver.Details{Owner: "ada", Host: "engine"}}, "ada")
}

// pass lets looks see what there is.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holds returns those of the resource, the oldest first.
func (w *world) holds(resource string) []history.Hold {
	w.t.Helper()
	w.pass(0)
	holds, err := w.log.Holds(w.t.Context(), history.Query{Resource: resource, Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(holds)
	return holds
}

// want returns the holds of the resource if they ended so.
func (w *world) want(resource string, ways ...history.How) []history.Hold {
	w.t.Helper()
	var got []history.How
	holds := w.holds(resource)
	for _, h := range holds {
		got = append(got, h.How)
	}
	if !slices.Equal(got, ways) {
		w.t.Fatalf("%s: got %q, want %q", resource, got, ways)
	}
	return holds
}

const look = 1100 * time.Millisecond // the time until the next look has been taken
