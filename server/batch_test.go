package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
)

// Each item has its own result, in order, and what is wrong with one concerns no other.
func TestBatchItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeople()
		ps["alice"].may[0] = []string{"r"} // access.Lock
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			if len(c.Refs) > 3 {
				return drivertest.Fault{DropLast: 1}
			}
			return drivertest.Fault{}
		})
		s := newSite(t, store, &server.Options{Identify: ps.identify})
		g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r"}))
		gone := wire.Ref{Resource: "r", HoldID: driver.NewHoldID()}
		refs := []wire.Ref{
			{Resource: "r"}, {Resource: "", HoldID: g.HoldID}, gone, {Resource: "other", HoldID: g.HoldID}, refOf(g),
			{Resource: "holdfast/server", HoldID: g.HoldID}, gone, gone,
		}
		var renewals wire.RenewRequest
		var releases wire.ReleaseRequest
		for _, ref := range refs {
			renewals.Holds = append(renewals.Holds, wire.Renewal{Ref: ref})
			releases.Holds = append(releases.Holds, wire.Release{Ref: ref, PlaceID: driver.PlaceID(ref.HoldID)})
		}
		renewed := read[wire.RenewAnswer](t, s.as("alice", wire.RenewPath, renewals)).Results
		want := []wire.Outcome{wire.Invalid, wire.Invalid, wire.Lost, wire.Denied, wire.Renewed, wire.Invalid, wire.Lost, wire.Unknown}
		for i, o := range want {
			if renewed[i].HoldID != refs[i].HoldID || renewed[i].Outcome != o || (renewed[i].SafeForMs != nil) != (o == wire.Renewed) || (renewed[i].Detail == "") != (o == wire.Renewed) {
				t.Errorf("renewal %d: %+v, want %s", i, renewed[i], o)
			}
		}
		released := read[wire.ReleaseAnswer](t, s.as("alice", wire.ReleasePath, releases)).Results
		want = []wire.Outcome{wire.Invalid, wire.Invalid, wire.Released, wire.Denied, wire.Released, wire.Invalid, wire.Released, wire.Unknown}
		for i, o := range want {
			if released[i].HoldID != refs[i].HoldID || released[i].PlaceID != driver.PlaceID(refs[i].HoldID) || released[i].Outcome != o || released[i].Found != (i == 4) {
				t.Errorf("release %d: %+v, want %s", i, released[i], o)
			}
		}
	})
}

// A batch whose answer got lost is unknown as a whole.
func TestBatchWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseReply: c.Op == drivertest.Renew || c.Op == drivertest.Release}
		})
		s := newSite(t, store, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r"})
		if r := s.renew(refOf(g), 0); r.Outcome != wire.Unknown || r.SafeForMs != nil {
			t.Errorf("%+v", r)
		}
		if r := s.release(refOf(g)); r.Outcome != wire.Unknown {
			t.Errorf("%+v", r)
		}
	})
}

// Once it has arrived, a release is done, even if the caller is gone.
func TestReleaseOfACallerThatHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowRelease{memlock.New(nil)}
		s := newSite(t, store, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r"})
		conn := s.dial()
		body := fmt.Sprintf(`{"holds":[{"resource":"r","holdId":%q}]}`, g.HoldID)
		fmt.Fprintf(conn, "POST /v1/release HTTP/1.1\r\nHost: server\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		time.Sleep(time.Second)
		_ = conn.Close()
		time.Sleep(2 * time.Second)
		if holds := stored(t, store, "r"); len(holds) != 0 {
			t.Errorf("%+v", holds)
		}
	})
}

// slowRelease is a store whose releases take 2 s, unless their ctx ends.
type slowRelease struct{ driver.Store }

func (s slowRelease) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	select {
	case <-after(2 * time.Second):
		return s.Store.Release(ctx, qs)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The longest names, of the characters that are the longest in JSON, fit.
func TestLongestBatch(t *testing.T) {
	s := newSite(t, nil, nil)
	name := func(i int) string { return strings.Repeat("\x01", driver.MaxName-4) + fmt.Sprintf("%04d", i) }
	var renewals wire.RenewRequest
	var releases wire.ReleaseRequest
	n := wire.MaxBatch
	if testing.Short() {
		n = 100
	}
	for i := range n {
		q := driver.AcquireRequest{Resource: name(i), LockID: name(i), HoldID: driver.NewHoldID(), TTL: time.Hour}
		g, err := s.store.Acquire(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		ref := wire.Ref{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
		renewals.Holds = append(renewals.Holds, wire.Renewal{Ref: ref})
		releases.Holds = append(releases.Holds, wire.Release{Ref: ref})
	}
	for i, r := range read[wire.RenewAnswer](t, s.post(wire.RenewPath, renewals)).Results {
		if r.Outcome != wire.Renewed {
			t.Fatalf("renewal %d: %+v", i, r)
		}
	}
	for i, r := range read[wire.ReleaseAnswer](t, s.post(wire.ReleasePath, releases)).Results {
		if !r.Found {
			t.Fatalf("release %d: %+v", i, r)
		}
	}
	mustBe(t, s.post(wire.RenewPath, strings.Repeat(" ", wire.MaxBody)+`{"holds":[]}`), wire.KindTooLarge)
	one := wire.Renewal{Ref: wire.Ref{Resource: "r", HoldID: driver.NewHoldID()}}
	mustBe(t, s.post(wire.RenewPath, wire.RenewRequest{Holds: slices.Repeat([]wire.Renewal{one}, wire.MaxBatch+1)}), wire.KindTooLarge)
	// One acquire with the longest names.
	long := strings.Repeat("\x01", driver.MaxName)
	s.acquire(wire.AcquireRequest{
		Resource: long, LockID: long, Owner: long, Host: long, Comment: long, HoldID: driver.NewHoldID(), PlaceID: driver.NewPlaceID(),
	})
}

func TestBadRequests(t *testing.T) {
	store := faulty(t, never)
	s := newSite(t, store, nil)
	before := store.Calls(drivertest.Acquire) + store.Calls(drivertest.Release) + store.Calls(drivertest.Renew)
	big := `{"resource":"` + strings.Repeat("x", 70<<10) + `"}`
	for _, test := range []struct {
		path, body string
		want       wire.Kind
	}{
		{wire.AcquirePath, "", wire.KindInvalid}, {wire.AcquirePath, "[]", wire.KindInvalid}, {wire.AcquirePath, "{}", wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","limt":1}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","Limit":1}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","limit":1,"limit":2}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r"} {}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","limit":1}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","ttlMs":-2}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","waitMs":-2}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","mode":"shred"}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","ttlMs":NaN}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","ttlMs":1.5}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"\u0000"}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","holdId":"xyz"}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","ttlMs":4000000000000000}`, wire.KindInvalid}, {wire.AcquirePath, big, wire.KindTooLarge},
		{wire.AcquirePath, strings.Repeat("[", 60_000), wire.KindInvalid},
		// What requests once had is unknown as anything else.
		{wire.AcquirePath, `{"resource":"r","ownLimit":true}`, wire.KindInvalid}, {wire.AcquirePath, `{"resource":"r","keepMs":1}`, wire.KindInvalid},
		{wire.AcquirePath, `{"resource":"r","under":"0123456789abcdef01234567"}`, wire.KindInvalid},
		{wire.RenewPath, `{"holds":[{"resource":"r","holdId":"0123456789abcdef01234567","exact":true}]}`, wire.KindInvalid},
		{wire.RenewPath, `{"holds":[{"resource":"r","holdId":"0123456789abcdef01234567","waits":null}]}`, wire.KindInvalid},
		{wire.ReleasePath, `{"holds":[{"resource":"r","holdId":"0123456789abcdef01234567","unheard":true}]}`, wire.KindInvalid},
		{wire.ForceReleasePath, `{"resource":"r","placeId":"0123456789abcdef01234567","reason":"why"}`, wire.KindInvalid},
		{wire.RenewPath, `{}`, wire.KindInvalid}, {wire.RenewPath, `{"holds":[]}`, wire.KindInvalid}, {wire.RenewPath, `{"holds":{}}`, wire.KindInvalid},
		{wire.ReleasePath, `{"hold":[]}`, wire.KindInvalid}, {wire.ReleasePath, `{"holds":[null]}`, wire.KindInvalid},
		{wire.ForceReleasePath, `{}`, wire.KindInvalid}, {wire.SweepPath, `{"idleMs":"1"}`, wire.KindInvalid}, {wire.SweepPath, big, wire.KindTooLarge},
	} {
		if a := s.post(test.path, test.body); a.kind() != test.want {
			t.Errorf("%s %.60s: %d %s", test.path, test.body, a.status, a.body)
		}
	}
	for _, ms := range []string{"", "x", "-1", "1.5", "99999999999"} {
		mustBe(t, s.post(wire.AcquirePath, `{"resource":"r"}`, wire.TimeoutHeader, ms), wire.KindInvalid)
	}
	mustBe(t, s.post(wire.AcquirePath, `{"resource":"r"}`, wire.TimeoutHeader, "1", wire.TimeoutHeader, "2"), wire.KindInvalid)
	if n := store.Calls(drivertest.Acquire) + store.Calls(drivertest.Release) + store.Calls(drivertest.Renew); n != before {
		t.Errorf("%d requests reached the store", n-before)
	}
}

// What the caller no longer waits for is not sent to the store.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{HoldReply: after(5 * time.Second)}
		})
		s := newSite(t, store, nil)
		before := store.Calls(drivertest.Acquire)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}, wire.TimeoutHeader, "0"), wire.KindUnknown)
		if n := store.Calls(drivertest.Acquire) - before; n != 0 {
			t.Errorf("%d attempts", n)
		}
		began := time.Now()
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID()}, wire.TimeoutHeader, "2000"), wire.KindUnknown)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		a := s.post(wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: wire.Ref{Resource: "r", HoldID: driver.NewHoldID()}}}}, wire.TimeoutHeader, "0")
		if r := read[wire.RenewAnswer](t, a).Results[0]; r.Outcome != wire.Unknown {
			t.Errorf("%+v", r)
		}
	})
}

// A store that hangs does not keep a request for ever.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		store := faulty(t, func(c drivertest.Call) drivertest.Fault { return drivertest.Fault{HoldReply: hang} })
		s := newSite(t, store, nil)
		ref := wire.Ref{Resource: "r", HoldID: driver.NewHoldID()}
		began := time.Now()
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: ref.HoldID}), wire.KindUnknown)
		if r := s.renew(ref, 0); r.Outcome != wire.Unknown {
			t.Errorf("%+v", r)
		}
		if r := s.release(ref); r.Outcome != wire.Unknown {
			t.Errorf("%+v", r)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: ref.HoldID, WaitMs: 25_000}), wire.KindUnknown)
		if took := time.Since(began); took > 27*time.Second {
			t.Errorf("the wait took %v", took)
		}
	})
}

// Errors of the store are told by kind alone: its texts may name what others hold.
func TestStoreErrors(t *testing.T) {
	for err, want := range map[error]wire.Kind{
		driver.ErrDamaged: wire.KindDamaged, driver.ErrUnusable: wire.KindUnusable, driver.ErrUnsupported: wire.KindUnsupported,
		drivertest.ErrFault: wire.KindUnknown, driver.ErrHeld: wire.KindUnknown,
	} {
		wrapped := fmt.Errorf("secret of another: %w", err)
		for _, waitMs := range []wire.Millis{0, 1000} {
			synctest.Test(t, func(t *testing.T) {
				store := faultyOf(t, memlock.New(nil), func(drivertest.Call) drivertest.Fault {
					return drivertest.Fault{LoseRequest: true, Err: wrapped}
				})
				s := newSite(t, store, nil)
				a := s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: waitMs})
				mustBe(t, a, want)
				if strings.Contains(string(a.body), "secret") && want != wire.KindUnsupported {
					t.Errorf("%s", a.body)
				}
			})
		}
	}
}

// A refusal of an acquire names the request, so that nobody takes it for that of another. A
// hold ID that the server made is of use to nobody.
func TestRefusalNamesItsRequest(t *testing.T) {
	s := newSite(t, nil, nil)
	s.acquire(wire.AcquireRequest{Resource: "r"})
	for _, id := range []driver.HoldID{driver.NewHoldID(), {}} {
		r := heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: id}))
		if r.HoldID != id {
			t.Errorf("the refusal names %q, want %q", r.HoldID, id)
		}
	}
}

// silentItems is a store that has no answer to some items of a batch, or to none.
type silentItems struct {
	driver.Store
	answered int
}

var errSilent = errors.New("no answer")

func (s *silentItems) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs, err := s.Store.Renew(ctx, qs)
	for i := s.answered; i < len(rs); i++ {
		rs[i] = driver.RenewResult{Err: errSilent}
	}
	return rs, err
}

func (s *silentItems) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	rs, err := s.Store.Release(ctx, qs)
	for i := s.answered; i < len(rs); i++ {
		rs[i] = driver.ReleaseResult{Err: errSilent}
	}
	return rs, err
}

// A call that returns without an error but answers none of its items was not answered.
func TestBatchWithoutAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answered int
		want     error
	}{
		"none": {0, errSilent},
		"one":  {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memlock.New(nil)
				defer memory.Close()
				store := &silentItems{Store: memory, answered: 1}
				told := make(map[string]error)
				s := newSite(t, store, &server.Options{Observer: &server.Observer{
					StoreCall: func(_ context.Context, op string, _ time.Duration, err error) { told[op] = err },
				}})
				g := grantOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}))
				gone := wire.Ref{Resource: "r", LockID: g.LockID, HoldID: driver.NewHoldID()}
				store.answered = c.answered
				s.post(wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: gone}, {Ref: refOf(g)}}})
				s.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: gone}, {Ref: refOf(g)}}})
				for _, op := range []string{"renew", "release"} {
					if got := told[op]; !errors.Is(got, c.want) {
						t.Errorf("%s: %v, want %v", op, got, c.want)
					}
				}
			})
		})
	}
}
