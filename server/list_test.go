package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
)

// A bound that chooses all or nothing is no bound that is missing.
func TestListsWithExtremeBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		s.acquire(wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID()})
		time.Sleep(time.Minute) // its end is over
		s.acquire(wire.AcquireRequest{Resource: "r2"})
		s.acquire(wire.AcquireRequest{Resource: "r3", HoldID: driver.NewHoldID(), TTLMs: wire.Forever})
		for q, want := range map[string]int{
			"ttlAtLeastMs=0": 2, "ttlAtLeastMs=0&expired=true": 3, "ttlBelowMs=1&expired=true": 1, "ttlBelowMs=9223372036854775807": 1,
			"createdBefore=0001-01-01T00:00:00Z": 0, "createdAfter=0001-01-01T00:00:00Z": 2, "createdBefore=9999-12-31T23:59:59Z": 2,
			"createdBefore=0001-01-01T01:00:00%2B01:00": 0,
		} {
			if list := read[wire.HoldList](t, s.get(wire.HoldsPath+"?"+q)); len(list.Holds) != want {
				t.Errorf("%s: %d holds, want %d", q, len(list.Holds), want)
			}
		}
	})
}

// entries reads a stream: its entries and its last line, if there is one.
func entries(t *testing.T, body []byte) (holds []wire.Hold, end wire.End) {
	t.Helper()
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, `{"end":`) || strings.HasPrefix(line, `{"error":`) {
			if err := json.Unmarshal([]byte(line), &end); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var h wire.Hold
		if err := json.Unmarshal([]byte(line), &h); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		holds = append(holds, h)
	}
	return holds, end
}

func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		for i := range 5 {
			s.acquire(wire.AcquireRequest{Resource: fmt.Sprint("r", i), LockID: "mine", TTLMs: wire.Millis(1000 * (i + 1))})
		}
		list := read[wire.HoldList](t, s.get(wire.HoldsPath+"?limit=3"))
		if len(list.Holds) != 3 || !list.Truncated {
			t.Errorf("%d holds, truncated: %v", len(list.Holds), list.Truncated)
		}
		if h := list.Holds[0]; !h.HoldID.IsZero() || h.LockID != "" || h.Token != 0 || len(h.Ref) != 8 {
			t.Errorf("a stranger sees %+v", h)
		}
		list = read[wire.HoldList](t, s.get(wire.HoldsPath+"?lockId=mine&ttlBelowMs=3000"))
		if len(list.Holds) != 2 || list.Truncated || list.Holds[0].HoldID.IsZero() || list.Holds[0].LockID != "mine" {
			t.Errorf("%+v", list)
		}
		a := s.get(wire.HoldsPath+"?ttlAtLeastMs=3000", "Accept", "text/plain, application/x-ndjson;q=0.9")
		holds, end := entries(t, a.body)
		if len(holds) != 3 || end.End == nil || end.End.Count != 3 || a.header.Get("Content-Type") != wire.NDJSON {
			t.Errorf("%v: %s", a.header, a.body)
		}
		if list := read[wire.HoldList](t, s.get(wire.HoldsPath+"?resource=none")); list.Holds == nil || len(list.Holds) != 0 {
			t.Errorf("%+v", list)
		}
		for _, query := range []string{
			"?limit=0", "?limit=10001", "?limit=x", "?resource=a&resource=a", "?Resource=a", "?resource=", "?lockId=", "?owner=", "?expired=1", "?ttlBelowMs=-1", "?ttlBelowMs=0",
			"?createdBefore=yesterday", "?a;b", "?resource=%00", "?resource=%ff", "?resource=holdfast/server",
		} {
			mustBe(t, s.get(wire.HoldsPath+query), wire.KindInvalid)
		}
		mustBe(t, s.get(wire.HoldsPath+"?limit=1", "Accept", wire.NDJSON), wire.KindInvalid)
	})
}

// cutStore breaks off each list.
type cutStore struct {
	driver.Store
	cutAt  int
	before func(n int) // is called before each entry
}

func (s *cutStore) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		n := 0
		for h, err := range s.Store.List(ctx, f) {
			n++
			if s.before != nil {
				s.before(n)
			}
			if n == s.cutAt {
				err = drivertest.ErrFault
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// A list that the store breaks off is an error for its reader, as is one whose connection
// ends.
func TestListCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cutStore{Store: memlock.New(nil)}
		s := newSite(t, store, nil)
		for i := range 200 {
			s.acquire(wire.AcquireRequest{Resource: fmt.Sprint("r", i)})
		}
		for _, store.cutAt = range []int{1, 3, 150} {
			mustBe(t, s.get(wire.HoldsPath), wire.KindUnknown)
			a := s.get(wire.HoldsPath, "Accept", wire.NDJSON)
			if store.cutAt < 10 {
				mustBe(t, a, wire.KindUnknown) // nothing was written yet
				if says := read[wire.Refusal](t, a).Detail; says != "the store did not answer" {
					t.Errorf("a list that changes nothing: %q", says)
				}
				continue
			}
			holds, end := entries(t, a.body)
			if len(holds) == 0 || end.End != nil || end.Error == nil || end.Error.Kind() != wire.KindUnknown {
				t.Errorf("%d holds, then %+v", len(holds), end)
			}
		}
	})
}

// A slow reader is cut off, and blocks nothing of the store until then.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams atomic.Int64
		s := newSite(t, nil, &server.Options{Observer: &server.Observer{Stream: func(_ server.Stream, n int) { streams.Add(int64(n)) }}})
		long := strings.Repeat("\x01", driver.MaxName-4)
		for i := range 100 {
			s.acquire(wire.AcquireRequest{Resource: fmt.Sprintf("%04d", i) + long, Comment: long})
		}
		conn := s.dial()
		defer conn.Close()
		go fmt.Fprintf(conn, "GET /v1/holds HTTP/1.1\r\nHost: server\r\nAccept: application/x-ndjson\r\n\r\n")
		reader := bufio.NewReaderSize(conn, 16)
		if _, err := reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if streams.Load() != 1 {
			t.Fatalf("%d streams", streams.Load())
		}
		s.acquire(wire.AcquireRequest{Resource: "other"})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if streams.Load() != 0 {
			t.Error("the stream goes on")
		}
		var text strings.Builder
		_, _ = reader.WriteTo(&text)
		if strings.Contains(text.String(), `{"end"`) || strings.HasSuffix(text.String(), "0\r\n\r\n") {
			t.Error("what was cut off looks complete")
		}
	})
}

func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		s.acquire(wire.AcquireRequest{Resource: "r"})
		q := wire.AcquireRequest{Resource: "r", PlaceID: driver.NewPlaceID(), Fair: true, Owner: "me"}
		if held := heldOf(t, s.post(wire.AcquirePath, q)); *held.Position != 1 || held.Waiters != 1 {
			t.Fatalf("%+v", held.Held)
		}
		list := read[wire.WaiterList](t, s.get(wire.WaitersPath))
		if len(list.Waiters) != 1 || list.Waiters[0].Owner != "me" {
			t.Errorf("%+v", list)
		}
		a := s.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r"}, PlaceID: q.PlaceID}}})
		if r := read[wire.ReleaseAnswer](t, a).Results[0]; r.Outcome != wire.Released {
			t.Errorf("%+v", r)
		}
		if list := read[wire.WaiterList](t, s.get(wire.WaitersPath)); len(list.Waiters) != 0 {
			t.Errorf("%+v", list)
		}
		q.WaitMs = 1
		mustBe(t, s.post(wire.AcquirePath, q), wire.KindInvalid)
	})
}

// events reads the events of a watch as they come.
func (s *site) events(path string) (<-chan string, func()) { return s.eventsAs(path, "") }

func (s *site) eventsAs(path, who string) (<-chan string, func()) {
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://server"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Who", who)
	resp, err := s.http.Do(r) //nolint:bodyclose // the caller stops it
	if err != nil {
		s.t.Fatal(err)
	}
	ch := make(chan string, 100)
	go func() {
		defer close(ch)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if lines.Text() != "" && lines.Text() != "data: {}" {
				ch <- lines.Text()
			}
		}
	}()
	return ch, func() { resp.Body.Close() }
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		s := newSite(t, store, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r"})
		events, stop := s.events(wire.WatchPath + "?resource=r")
		want := func(event string) {
			t.Helper()
			if got := <-events; got != event {
				t.Fatalf("got %q, want %q", got, event)
			}
		}
		want("event: ready")
		s.release(refOf(g))
		want("event: signal")
		want(": still there")
		_ = store.Close()
		want("event: end")
		want("")
		stop()
		for _, query := range []string{"", "?resource=", "?resource=a&x=1"} {
			mustBe(t, s.get(wire.WatchPath+query), wire.KindInvalid)
		}
	})
}
