package eslock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// waiting returns a request with a fair place of its own.
func waiting(resource, lockID string) driver.AcquireRequest {
	q := ask.Request(resource, lockID)
	q.Place, q.Fair = driver.NewPlaceID(), true
	return q
}

// refusedAt checks that the request is refused and has this position.
func refusedAt(t *testing.T, s driver.Store, q driver.AcquireRequest, position int) *driver.HeldError {
	t.Helper()
	held := ask.Refused(t, s, q)
	if held.Position != position {
		t.Errorf("%q has position %d, want %d: %+v", q.LockID, held.Position, position, held)
	}
	return held
}

// placed is refusedAt without a result.
func placed(t *testing.T, s driver.Store, q driver.AcquireRequest, position int) {
	t.Helper()
	_ = refusedAt(t, s, q, position)
}

// left gives up a place.
func left(t *testing.T, s driver.Store, q driver.AcquireRequest) {
	t.Helper()
	rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID}, Place: q.Place}})
	if err != nil || rs[0] != (driver.ReleaseResult{}) {
		t.Errorf("giving up a place: %+v, %v", rs, err)
	}
}

// waiters returns the resources and the lock IDs of all waiters.
func waiters(t *testing.T, s *eslock.Store, f driver.Filter) (all []string) {
	t.Helper()
	for p, err := range s.Waiters(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Resource+" "+p.LockID)
	}
	return all
}

// changePlaces writes the document of a resource again, with changed places.
func (n node) changePlaces(t *testing.T, index, resource string, change func(place object)) {
	t.Helper()
	doc := n.Source(t, index, resource)
	for _, p := range doc["holdfast"].(object)["places"].([]any) {
		change(p.(object))
	}
	n.Must(t, http.MethodPut, "/"+index+"/_doc/"+resource, doc)
}

// since moves the times at which the waiter came and last asked.
func since(lockID string, earlier time.Duration) func(place object) {
	return func(place object) {
		for _, key := range []string{"since", "asked", "until"} {
			if place["lockId"] == lockID {
				place[key] = place[key].(float64) - float64(earlier.Milliseconds())
			}
		}
	}
}

// A place is written once, and then only when a quarter of its time is over. Requests
// without a place write nothing.
func TestPlacesAreWrittenSeldom(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		version := func() (v float64) {
			t.Helper()
			return n.Must(t, http.MethodGet, "/"+index+"/_doc/r", nil)["_version"].(float64)
		}
		writes := func(what string, want float64, do func()) {
			t.Helper()
			before := version()
			do()
			if got := version() - before; got != want {
				t.Errorf("%s: %v writes, want %v", what, got, want)
			}
		}
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		q, fair := waiting("r", "b"), waiting("r", "c")
		q.Fair = false // it is kept longer
		writes("a place", 1, func() { placed(t, s, q, 0) })
		writes("the same place", 0, func() { placed(t, s, q, 0) })
		writes("no place", 0, func() { placed(t, s, ask.Request("r", "d"), driver.NoPlace) })
		writes("its own hold", 0, func() { placed(t, s, waiting("r", "a"), driver.NoPlace) })
		writes("the place of an heir", 1, func() {
			q.LockID = "heir"
			placed(t, s, q, 0)
		})
		placed(t, s, fair, 0)
		quarter := driver.FairPlaceTTL / 4
		n.changePlaces(t, index, "r", since("c", quarter))
		place := func() (found driver.Place) {
			t.Helper()
			for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: "r", LockID: "c"}) {
				if found = p; err != nil {
					t.Fatal(err)
				}
			}
			return found
		}
		first := place()
		writes("a place that is kept for longer", 1, func() { placed(t, s, fair, 0) })
		if last := place(); !last.Since.Equal(first.Since) || last.Asked.Sub(first.Asked) < quarter || last.ID != fair.Place {
			t.Errorf("the place was %+v and is %+v", first, last)
		}
		n.changePlaces(t, index, "r", since("c", driver.FairPlaceTTL))
		if got := waiters(t, s, driver.Filter{Resource: "r"}); !slices.Equal(got, []string{"r heir"}) {
			t.Errorf("%q wait; an abandoned place should have ended", got)
		}
		writes("giving up a place", 1, func() { left(t, s, q) })
		writes("giving it up again", 0, func() { left(t, s, q) })
		ask.Released(t, s, ref, 0)
		if _, is := n.Source(t, index, "r")["holdfast"].(object)["places"]; is {
			t.Error("an empty queue is stored")
		}
	})
}

// With many places ahead, a refusal has the first four, and a renewal none. The others
// still refuse a request.
func TestManyPlaces(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		measured := &measured{node: n}
		s := newStore(t, measured, &eslock.Options{Index: n.Index(t)})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		first, name := driver.PlaceID{}, strings.Repeat("x", 1000)
		for i := range driver.MaxPlaces {
			q := ask.Shared(waiting("r", fmt.Sprint(name, i)), driver.MaxPlaces)
			q.Details = driver.Details{Owner: name, Host: name, Comment: name}
			if i == 0 {
				first = q.Place
			}
			placed(t, s, q, i)
		}
		late := ask.Shared(waiting("r", "late"), driver.MaxPlaces)
		placed(t, s, late, driver.NoPlace)
		if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}}); err != nil || rs[0].Waiters != driver.MaxPlaces {
			t.Errorf("renewed %+v, %v", rs, err)
		}
		ask.Lost(t, s, driver.HoldRef{Resource: "r", LockID: "none", HoldID: driver.NewHoldID(), Token: 1})
		ask.Released(t, s, ref, 0)
		for _, q := range []driver.AcquireRequest{late, ask.Shared(ask.Request("r", "no place"), driver.MaxPlaces)} {
			held := refusedAt(t, s, q, driver.NoPlace)
			if len(held.Holders) != 0 || len(held.Ahead) != 4 || held.Ahead[0].ID != first || held.Waiters != driver.MaxPlaces || held.LimitDiffers || held.RetryAfter != 0 {
				t.Errorf("refused with %+v", held)
			}
		}
		if measured.longest > 8<<10 {
			t.Errorf("an answer has %d bytes", measured.longest)
		}
	})
}

// Waiters are found in every resource, by their lock IDs and details.
func TestWaitersAreFound(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		long := strings.Repeat("ü", 1024/2)
		var want []string
		for i, resource := range []string{"held", "free", long} {
			ref := ask.Granted(t, s, ask.Request(resource, "holder"))
			q := waiting(resource, fmt.Sprint("waiter ", i))
			q.Details = driver.Details{Owner: fmt.Sprint("owner ", i), Host: "h"}
			placed(t, s, q, 0)
			want = append(want, resource+" "+q.LockID)
			if resource == "free" {
				ask.Released(t, s, ref, 0)
			}
		}
		ask.Granted(t, s, ask.Request("without", "holder"))
		placed(t, s, waiting("held", "ended"), 1)
		n.changePlaces(t, index, "held", since("ended", driver.FairPlaceTTL))
		got := waiters(t, s, driver.Filter{})
		slices.Sort(got)
		sorted := slices.Sorted(slices.Values(want))
		if !slices.Equal(got, sorted) {
			t.Errorf("%q wait, want %q", got, sorted)
		}
		for i, f := range []driver.Filter{{LockID: "waiter 0"}, {Owner: "owner 1"}, {Resource: long}} {
			if got := waiters(t, s, f); !slices.Equal(got, want[i:i+1]) {
				t.Errorf("%+v: %q wait, want %q", f, got, want[i])
			}
		}
		if got := waiters(t, s, driver.Filter{LockID: "holder"}); len(got) != 0 {
			t.Errorf("holders wait: %q", got)
		}
	})
}

// A sweep deletes no document with a live place, however short a document may be idle.
func TestSweepLeavesPlaces(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		q := waiting("r", "b")
		q.Fair = false // it is kept until the sweep
		placed(t, s, q, 0)
		ask.Released(t, s, ref, 0)
		ask.Released(t, s, ask.Granted(t, s, ask.Request("later", "a")), 0)
		ask.Until(t, "a sweep has deleted a document that was used later", func() bool {
			if _, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			status, _ := n.Ask(t.Context(), t, http.MethodGet, "/"+index+"/_doc/later", nil)
			return status == http.StatusNotFound
		})
		if got := waiters(t, s, driver.Filter{Resource: "r"}); !slices.Equal(got, []string{"r b"}) {
			t.Errorf("%q wait", got)
		}
		ask.Granted(t, s, q)
	})
}

// Beside an old client's lock there is no queue, and its document stays as it is: a
// simultaneous write would make its keep-alive fail. Waiters rebuild the queue when they
// ask again.
func TestPlacesBesideOldClients(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index, OldClients: true})
		old := n.oldClient(t, index, "old")
		q := waiting("r", "b")
		noQueue := func() {
			t.Helper()
			before := n.Must(t, http.MethodGet, "/"+index+"/_doc/r", nil)
			held := refusedAt(t, s, q, driver.NoPlace)
			if len(held.Holders) != 1 || held.Holders[0].LockID != "old" || len(held.Ahead) != 0 || held.Waiters != 0 {
				t.Errorf("refused with %+v", held)
			}
			if got := waiters(t, s, driver.Filter{}); len(got) != 0 {
				t.Errorf("%q wait", got)
			}
			if after := n.Must(t, http.MethodGet, "/"+index+"/_doc/r", nil); after["_version"] != before["_version"] {
				t.Errorf("the document was %v and is %v", before, after)
			}
		}
		if !old.acquire("r", time.Hour) {
			t.Fatal("not locked")
		}
		noQueue()
		if !old.release("r") {
			t.Fatal("not released")
		}
		// Old clients can read a document with places, and ignore them.
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		placed(t, s, q, 0)
		if old.acquire("r", time.Hour) {
			t.Fatal("both hold it")
		}
		ask.Released(t, s, ref, 0)
		placed(t, s, waiting("r", "late"), 1)
		if !old.acquire("r", time.Hour) {
			t.Fatal("an old client was refused because of the queue")
		}
		noQueue()
		ask.Released(t, s, driver.HoldRef{Resource: "r", LockID: "old"}, 0)
		ref = ask.Granted(t, s, ask.Request("r", "a"))
		placed(t, s, q, 0)
		ask.Released(t, s, ref, 0)
		ask.Granted(t, s, q)
	})
}

// However many waiters ask at once, each has one place, and all are served in the order
// of their places.
func TestConflictsOfPlaces(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, n node) {
		const acquirers = 12
		c := &conflicting{node: n}
		s := newStore(t, c, &eslock.Options{Index: n.Index(t)})
		ref := ask.Granted(t, s, ask.Request("r", "holder"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		free := make(chan struct{})
		served := make(chan string, acquirers)
		var all, noted sync.WaitGroup
		for i := range acquirers {
			q := waiting("r", fmt.Sprint("waiter ", i))
			noted.Add(1)
			all.Go(func() {
				_, err := s.Acquire(ctx, q)
				noted.Done()
				for errors.Is(err, driver.ErrHeld) {
					select {
					case <-free:
					case <-time.After(time.Second): // otherwise the place would end
					}
					q.HoldID = driver.NewHoldID()
					_, err = s.Acquire(ctx, q)
				}
				if err != nil {
					t.Error(err)
					return
				}
				served <- "r " + q.LockID
				ask.Released(t, s, driver.HoldRef{Resource: "r", LockID: q.LockID, HoldID: q.HoldID}, 0)
			})
		}
		noted.Wait()
		want := waiters(t, s, driver.Filter{})
		ask.Released(t, s, ref, 0)
		close(free)
		all.Wait()
		close(served)
		var got []string
		for who := range served {
			got = append(got, who)
		}
		if !slices.Equal(got, want) || len(want) != acquirers {
			t.Errorf("served were %q, want %q", got, want)
		}
		if left := waiters(t, s, driver.Filter{}); len(left) != 0 {
			t.Errorf("%q still wait", left)
		}
		t.Logf("%d conflicts", c.conflicts.Load())
	})
}

// crowded is a node on which each write of a place has a conflict.
type crowded struct {
	node
	is atomic.Bool
}

func (c *crowded) Perform(req *http.Request) (*http.Response, error) {
	if !c.is.Load() || !strings.HasSuffix(req.URL.Path, "/_bulk") {
		return c.node.Perform(req)
	}
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if req.Body = io.NopCloser(bytes.NewReader(text)); !bytes.Contains(text, []byte(`"placeTtl":`)) {
		return c.node.Perform(req)
	}
	conflict := `{"items":[{"update":{"_id":"r","status":409,"error":{"type":"version_conflict_engine_exception","reason":"x"}}}]}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(conflict)), Request: req,
	}, nil
}

// A request whose place cannot be written is decided in the same way without it, and the
// queue stays as it is.
func TestPlacesAmongConflicts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		c := &crowded{node: n}
		s := newStore(t, c, &eslock.Options{Index: index})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		first, second, third := waiting("r", "b"), waiting("r", "c"), waiting("r", "d")
		placed(t, s, first, 0)
		placed(t, s, second, 1)
		n.changePlaces(t, index, "r", func(place object) { place["until"] = place["until"].(float64) + float64(time.Hour.Milliseconds()) })
		c.is.Store(true)
		before := n.Must(t, http.MethodGet, "/"+index+"/_doc/r", nil)["_version"]
		heir := second
		heir.LockID = "heir"
		if e := refusedAt(t, s, heir, driver.NoPlace); e.Waiters != 1 || len(e.Ahead) != 1 || e.Ahead[0].ID != first.Place || len(e.Holders) != 1 {
			t.Errorf("beside its own place: %+v", *e)
		}
		if e := refusedAt(t, s, third, driver.NoPlace); e.Waiters != 2 || len(e.Ahead) != 2 || len(e.Holders) != 1 {
			t.Errorf("without a place: %+v", *e)
		}
		if after := n.Must(t, http.MethodGet, "/"+index+"/_doc/r", nil)["_version"]; after != before {
			t.Errorf("version %v was written after %v", after, before)
		}
		ask.Released(t, s, ref, 0)
		if e := refusedAt(t, s, heir, driver.NoPlace); e.Waiters != 1 || len(e.Ahead) != 1 || len(e.Holders) != 0 {
			t.Errorf("behind another: %+v", *e)
		}
		ask.Granted(t, s, first)
		if got := waiters(t, s, driver.Filter{Resource: "r"}); !slices.Equal(got, []string{"r c"}) {
			t.Errorf("%q wait", got)
		}
	})
}

// If a place does not fit the mapping, because somebody has changed that, the request is
// still refused.
func TestPlacesThatDoNotFit(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		number := object{"properties": object{"lockId": object{"type": "integer"}}}
		n.Must(t, http.MethodPut, "/"+index+"/_mapping", object{"properties": object{"holdfast": object{"properties": object{"places": number}}}})
		q := waiting("r", "b")
		if e := refusedAt(t, s, q, driver.NoPlace); e.Waiters != 0 || len(e.Holders) != 1 || e.Holders[0].LockID != "a" {
			t.Errorf("refused with %+v", *e)
		}
		ask.Released(t, s, ref, 0)
		ask.Granted(t, s, q)
	})
}

// A request with a place takes one update, like all requests.
func TestPlacesInOneRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		c := &counting{node: n}
		s := newStore(t, c, &eslock.Options{Index: n.Index(t)})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		q := waiting("r", "b")
		for what, do := range map[string]func(){
			"a refusal":           func() { _ = ask.Refused(t, s, q) },
			"a place is given up": func() { left(t, s, q) },
			"the waiters of one":  func() { waiters(t, s, driver.Filter{Resource: "r"}) },
			"a clean-up and a place": func() {
				clean := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: "r", LockID: "b", HoldID: q.HoldID}, Place: q.Place}
				if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{clean}); err != nil || rs[0] != (driver.ReleaseResult{}) {
					t.Errorf("cleaned up %+v, %v", rs, err)
				}
			},
		} {
			c.updates.Store(0)
			if do(); c.updates.Load() != 1 {
				t.Errorf("%s: %d updates", what, c.updates.Load())
			}
		}
		ask.Released(t, s, ref, 0)
	})
}

// Holds may contain a note of what their holders waited for. It is ignored.
func TestOldNote(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		for i, note := range []any{object{"resource": "s", "mode": "shared", "limit": 3, "placeId": strings.Repeat("a", 24), "since": 1}, "text"} {
			r := fmt.Sprint("r", i)
			ref := ask.Granted(t, s, ask.Request(r, "a"))
			doc := n.Source(t, index, r)
			doc["holdfast"].(object)["holds"].([]any)[0].(object)["waits"] = note
			n.Must(t, http.MethodPut, "/"+index+"/_doc/"+r, doc)
			if all := held(t, s, r); len(all) != 1 || all[0].Ref() != ref {
				t.Errorf("%v: held by %+v", note, all)
			}
			placed(t, s, waiting(r, "b"), 0)
			rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
			if err != nil || rs[0].Err != nil || rs[0].Waiters != 1 {
				t.Errorf("%v: renewed %+v, %v", note, rs, err)
			}
			if !ask.Released(t, s, ref, 0) {
				t.Errorf("%v: not found", note)
			}
		}
	})
}
