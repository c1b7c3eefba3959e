package httplock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// measured is a server that records the size of its requests, and refuses those larger
// than most, as itself or as a proxy does.
type measured struct {
	*testServer
	most  int64
	proxy bool

	mu    sync.Mutex
	sizes []int64
}

func newMeasured(t *testing.T) *measured {
	m := &measured{testServer: &testServer{t: t, store: memlock.New(nil)}, most: wire.MaxBody}
	m.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != wire.RenewPath && r.URL.Path != wire.ReleasePath {
			return true
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.ContentLength <= m.most {
			m.sizes = append(m.sizes, r.ContentLength)
			return true
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answer := reply{status: http.StatusRequestEntityTooLarge, media: "text/html", body: "<html>"}
		if !m.proxy {
			answer = ours(wire.NewRefusal(wire.KindTooLarge, "too large"))
		}
		answer.write(w)
		return false
	}
	return m
}

// many acquires n holds with these names.
func many(t *testing.T, s driver.Store, n int, name func(i int) string) (qs []driver.RenewRequest) {
	t.Helper()
	for i := range n {
		q := driver.AcquireRequest{Resource: name(i), LockID: name(i), HoldID: driver.NewHoldID(), TTL: time.Hour}
		g, err := s.Acquire(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		qs = append(qs, driver.RenewRequest{
			HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token},
			TTL:     time.Hour + time.Duration(i)*time.Second,
		})
	}
	return qs
}

// 1,000 of the longest names, of control characters, which take six bytes each in JSON.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	server := newMeasured(t)
	s := dial(t, server.listen().URL, nil)
	qs := many(t, server.store, wire.MaxBatch, func(i int) string { return strings.Repeat("\x01", driver.MaxName-4) + fmt.Sprintf("%04d", i) })
	gone := qs[500].HoldRef
	if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: gone}}); err != nil || !rs[0].Found {
		t.Fatal(rs, err)
	}
	rs, err := s.Renew(t.Context(), qs)
	if err != nil || len(rs) != len(qs) {
		t.Fatalf("%d results, %v", len(rs), err)
	}
	for i, r := range rs {
		switch {
		case qs[i].HoldRef == gone:
			if !errors.Is(r.Err, driver.ErrLost) {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		case r.Err != nil || r.Left < qs[i].TTL-time.Minute || r.Left > qs[i].TTL:
			t.Fatalf("renewal %d: %v left of %v, %v", i, r.Left, qs[i].TTL, r.Err)
		}
	}
	for _, size := range server.sizes {
		if size > maxBody+1<<10 {
			t.Errorf("a request of %d bytes", size)
		}
	}
	if n := len(server.sizes); n < 1+20 || n > 1+50 {
		t.Errorf("%d requests for 1,000 renewals", n-1)
	}
}

// A batch that is too large for somebody on the way is halved until it fits. An item that
// is too large fails alone.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, proxy := range []bool{false, true} {
		server := newMeasured(t)
		server.most, server.proxy = 4<<10, proxy
		s := dial(t, server.listen().URL, nil)
		qs := many(t, s, 100, func(i int) string {
			if i == 37 {
				return strings.Repeat("\x01", driver.MaxName)
			}
			return fmt.Sprint("resource ", i)
		})
		rs, err := s.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		var releases []driver.ReleaseRequest
		for i, r := range rs {
			switch {
			case i != 37 && (r.Err != nil || r.Left < qs[i].TTL-time.Minute || r.Left > qs[i].TTL):
				t.Errorf("renewal %d: %v, %v", i, r.Left, r.Err)
			case i == 37 && (r.Err == nil || proxy == isDefinite(r.Err)):
				t.Errorf("by a proxy %v: an item that is too large: %v", proxy, r.Err)
			}
			releases = append(releases, driver.ReleaseRequest{HoldRef: qs[i].HoldRef})
		}
		released, err := s.Release(t.Context(), releases)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range released {
			if found := i != 37; r.Found != found || (r.Err == nil) != found {
				t.Errorf("release %d: %+v", i, r)
			}
		}
	}
}

// More than a thousand items take several requests. If one request fails, the others
// count. If all fail, the batch has failed.
func TestPartOfBatchFails(t *testing.T) {
	t.Parallel()
	server := newMeasured(t)
	s := dial(t, server.listen().URL, nil)
	var qs []driver.RenewRequest
	for i := range 2*wire.MaxBatch + 1 {
		qs = append(qs, driver.RenewRequest{HoldRef: driver.HoldRef{Resource: fmt.Sprint(i), LockID: "a", HoldID: driver.HoldID{1}}, TTL: time.Hour})
	}
	inner := server.before
	n, fails := 0, func(n int) bool { return n == 2 }
	server.before = func(w http.ResponseWriter, r *http.Request) bool {
		if n++; fails(n) {
			_, _ = io.Copy(io.Discard, r.Body)
			reply{status: http.StatusBadGateway, media: "text/html"}.write(w)
			return false
		}
		return inner(w, r)
	}
	rs, err := s.Renew(t.Context(), qs)
	if err != nil || len(rs) != len(qs) || n != 3 {
		t.Fatalf("%d requests, %d results, %v", n, len(rs), err)
	}
	for i, r := range rs {
		if known := i < wire.MaxBatch || i >= 2*wire.MaxBatch; known != errors.Is(r.Err, driver.ErrLost) || known != isDefinite(r.Err) {
			t.Fatalf("renewal %d: %v", i, r.Err)
		}
	}
	fails = func(int) bool { return true }
	if _, err := s.Renew(t.Context(), qs); err == nil || isDefinite(err) {
		t.Errorf("when all fail: %v", err)
	}
}

// The known outcome of some items says nothing about others, and is returned whatever
// happens to the other requests of the call.
func TestOutcomesOfParts(t *testing.T) {
	t.Parallel()
	store := memlock.New(nil)
	const perRequest = 40 // with these names, or a few more
	qs := many(t, store, 2*perRequest, func(i int) string { return strings.Repeat("\x01", driver.MaxName-4) + fmt.Sprintf("%04d", i) })
	const sent, refused, dropped = "sent", "refused", "dropped"
	for _, c := range []struct {
		requests []string // the fate of the first, second, …
		fails    bool     // the call as a whole fails
	}{
		{[]string{sent, dropped}, false},
		{[]string{dropped, sent}, false},
		{[]string{refused, dropped}, false},
		{[]string{dropped, refused}, false},
		{[]string{refused, sent}, false},
		{[]string{refused, refused}, false},
		{[]string{dropped, dropped}, true},
		{[]string{refused}, true},
		{[]string{dropped}, true},
	} {
		n := 0
		var became []string // the fate of each hold that was sent
		server := &testServer{t: t, store: store, before: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != wire.RenewPath && r.URL.Path != wire.ReleasePath {
				return true
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			how := c.requests[n]
			n++
			for range bytes.Count(body, []byte(`"holdId"`)) {
				became = append(became, how)
			}
			switch how {
			case refused:
				ours(wire.NewRefusal(wire.KindDenied, "no")).write(w)
			case dropped:
				reply{status: http.StatusBadGateway, media: "text/html"}.write(w)
			}
			return how == sent
		}}
		s := dial(t, server.listen().URL, nil)
		check := func(what, became string, err error) {
			t.Helper()
			if (err == nil) != (became == sent) || errors.Is(err, driver.ErrUnusable) != (became == refused) || isDefinite(err) != (became != dropped) {
				t.Fatalf("%v: %s was %s: %v", c.requests, what, became, err)
			}
		}
		renewals := qs[:len(c.requests)*perRequest]
		rs, err := s.Renew(t.Context(), renewals)
		if (err != nil) != c.fails || err != nil && c.requests[0] == dropped && isDefinite(err) {
			t.Fatalf("%v: %v", c.requests, err)
		}
		for i, r := range rs {
			check("renewal", became[i], r.Err)
		}

		// Items that other requests decided.
		n, became = 0, nil
		nobody := driver.HoldRef{Resource: "0", LockID: "nobody"}
		rs, err = s.Renew(t.Context(), append([]driver.RenewRequest{{HoldRef: nobody, TTL: time.Hour}}, renewals...))
		if err != nil || !errors.Is(rs[0].Err, driver.ErrLost) {
			t.Errorf("%v: renewal of a missing hold: %+v, %v", c.requests, rs[0], err)
		}
		n, became = 0, nil
		releases := []driver.ReleaseRequest{{HoldRef: ask(t, store, "forced"), Reason: "stuck"}}
		for _, q := range renewals {
			q.HoldID = driver.HoldID{1} // a hold that does not exist
			releases = append(releases, driver.ReleaseRequest{HoldRef: q.HoldRef})
		}
		released, err := s.Release(t.Context(), releases)
		if err != nil || !released[0].Found || released[0].Err != nil {
			t.Errorf("%v: a forced release: %+v, %v", c.requests, released[0], err)
		}
		for i, r := range released[1:] {
			check("release", became[i], r.Err)
		}
	}
}

// ask acquires a hold of the resource.
func ask(t *testing.T, s driver.Store, resource string) driver.HoldRef {
	t.Helper()
	return many(t, s, 1, func(int) string { return resource })[0].HoldRef
}

// An answer with too few results is not the server's: all are unknown.
func TestMissingResults(t *testing.T) {
	t.Parallel()
	ms := wire.Millis(1000)
	s := answering(t, ours(wire.RenewAnswer{Results: []wire.RenewResult{{HoldID: ref.HoldID, Outcome: wire.Renewed, TTLMs: &ms}}}))
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref}, {HoldRef: ref}})
	if isDefinite(err) {
		t.Errorf("%+v, %v", rs, err)
	}
	for i, r := range rs {
		if isDefinite(r.Err) || r.Left != driver.Unknown {
			t.Errorf("renewal %d: %+v", i, r)
		}
	}
}

// For a release of "whichever hold", the store looks for the hold and then names it. A
// forced release has a path of its own, and a reason.
func TestForcedRelease(t *testing.T) {
	t.Parallel()
	server := newMeasured(t)
	s := dial(t, server.listen().URL, nil)
	qs := many(t, s, 3, func(i int) string { return fmt.Sprint("r", i) })
	unnamed := qs[1].HoldRef
	unnamed.HoldID, unnamed.Token = driver.HoldID{}, 0
	older := unnamed
	older.Token = qs[1].Token - 1
	rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: older}})
	if err != nil || rs[0].Found || rs[0].Err != nil {
		t.Errorf("release without a hold ID, with an older token: %+v, %v", rs, err)
	}
	rs, err = s.Release(t.Context(), []driver.ReleaseRequest{
		{HoldRef: qs[0].HoldRef, Reason: "stuck"},
		{HoldRef: unnamed, Reason: "stuck, too"},
		{HoldRef: unnamed},
		{HoldRef: driver.HoldRef{Resource: "r2", LockID: "r2"}},
		{HoldRef: driver.HoldRef{Resource: "r2", LockID: "nobody"}, Reason: "unused"},
		{HoldRef: driver.HoldRef{Resource: "r2"}, Reason: "of a hold that is shown in part"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, found := range []bool{true, true, true, true, false, false} {
		// The second and third looked for the hold at the same time, before it was
		// released.
		if i == 2 {
			found = rs[i].Found
		}
		if rs[i].Found != found || (rs[i].Err != nil) != (i == 5) {
			t.Errorf("release %d: %+v", i, rs[i])
		}
	}
	if !errors.Is(rs[5].Err, driver.ErrUnusable) {
		t.Errorf("release of a hold that is partly hidden: %v", rs[5].Err)
	}
	if got := strings.Join(server.reasons, ", "); got != "stuck, stuck, too" {
		t.Errorf("reasons: %s", got)
	}
	renewed, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: unnamed, TTL: time.Hour}})
	if err != nil || !errors.Is(renewed[0].Err, driver.ErrLost) {
		t.Errorf("renewal of a missing hold: %+v, %v", renewed, err)
	}
}
