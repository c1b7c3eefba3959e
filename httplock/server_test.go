package httplock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const testStoreID = "0123456789abcdef01234567"

// testServer implements the API of `holdfast serve`, without rights and without waits, on
// a store.
type testServer struct {
	t     *testing.T
	store driver.Store
	// before, if set, is called with each request. It returns false if it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	reasons []string // of forced releases
	served  atomic.Int64
}

// listen starts the server.
func (s *testServer) listen() *httptest.Server {
	server := httptest.NewServer(s)
	s.t.Cleanup(server.Close)
	return server
}

// dial returns a store on the server, which closes with the test.
func dial(t *testing.T, serverURL string, o *Options) *Store {
	t.Helper()
	s, err := New(serverURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *testServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	if s.before != nil && !s.before(w, r) {
		return
	}
	w.Header().Set(wire.StoreHeader, testStoreID)
	switch r.Method + " " + r.URL.Path {
	case "POST " + wire.AcquirePath:
		serve(s, w, r, s.acquire)
	case "POST " + wire.RenewPath:
		serve(s, w, r, s.renew)
	case "POST " + wire.ReleasePath:
		serve(s, w, r, s.release)
	case "POST " + wire.ForceReleasePath:
		serve(s, w, r, s.force)
	case "POST " + wire.SweepPath:
		serve(s, w, r, s.sweep)
	case "GET " + wire.HoldsPath:
		stream(s, w, r, s.store.List, wire.HoldOf)
	case "GET " + wire.WaitersPath:
		stream(s, w, r, func(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
			return driver.Waiters(ctx, s.store, f)
		}, wire.WaiterOf)
	case "GET " + wire.WatchPath:
		s.watch(w, r)
	case "GET " + wire.TraitsPath:
		answer(w, wire.TraitsOf(s.store.Traits()))
	default:
		refuse(w, wire.NewRefusal(wire.KindNotFound, "no such path"))
	}
}

// serve reads the request strictly, as the API promises.
func serve[Q any](s *testServer, w http.ResponseWriter, r *http.Request, do func(context.Context, Q) (any, error)) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var q Q
	if r.Header.Get("Content-Type") != wire.JSON {
		err = fmt.Errorf("%w: content type %q", driver.ErrInvalid, r.Header.Get("Content-Type"))
	} else {
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		err = d.Decode(&q)
	}
	if err != nil {
		s.t.Errorf("%s: %v", r.URL.Path, err)
		fail500(w, err)
		return
	}
	a, err := do(r.Context(), q)
	if err != nil {
		fail500(w, err)
		return
	}
	if r, refused := a.(wire.Refusal); refused {
		refuse(w, r)
		return
	}
	answer(w, a)
}

func answer(w http.ResponseWriter, a any) {
	w.Header().Set("Content-Type", wire.JSON)
	_ = json.NewEncoder(w).Encode(a)
}

func fail500(w http.ResponseWriter, err error) {
	refuse(w, wire.NewRefusal(wire.KindOf(err), err.Error()))
}

func refuse(w http.ResponseWriter, r wire.Refusal) {
	w.Header().Set("Content-Type", wire.ProblemJSON)
	w.WriteHeader(r.Status)
	_ = json.NewEncoder(w).Encode(r)
}

func (s *testServer) acquire(ctx context.Context, q wire.AcquireRequest) (any, error) {
	r := q.Driver()
	if err := r.Validate(); err != nil {
		return nil, err
	}
	g, err := s.store.Acquire(ctx, r)
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		refusal := wire.HeldRefusal(held)
		refusal.HoldID = q.HoldID
		return refusal, nil
	}
	if err != nil {
		return nil, err
	}
	return wire.GrantOf(r, g), nil
}

func (s *testServer) renew(ctx context.Context, q wire.RenewRequest) (any, error) {
	var qs []driver.RenewRequest
	for _, r := range q.Holds {
		if r.HoldID.IsZero() {
			s.t.Error("a renewal without a hold ID")
		}
		qs = append(qs, r.Driver())
	}
	results, err := s.store.Renew(ctx, qs)
	a := wire.RenewAnswer{Results: []wire.RenewResult{}}
	for i, r := range results {
		a.Results = append(a.Results, wire.RenewResultOf(q.Holds[i], r))
	}
	return a, err
}

func (s *testServer) release(ctx context.Context, q wire.ReleaseRequest) (any, error) {
	var qs []driver.ReleaseRequest
	for _, r := range q.Holds {
		if r.HoldID.IsZero() && r.PlaceID.IsZero() {
			s.t.Error("a release without a hold ID")
		}
		qs = append(qs, r.Driver())
	}
	results, err := s.store.Release(ctx, qs)
	a := wire.ReleaseAnswer{Results: []wire.ReleaseResult{}}
	for i, r := range results {
		a.Results = append(a.Results, wire.ReleaseResultOf(q.Holds[i], r))
	}
	return a, err
}

func (s *testServer) force(ctx context.Context, q wire.ForceRequest) (any, error) {
	s.mu.Lock()
	s.reasons = append(s.reasons, q.Reason)
	s.mu.Unlock()
	item := wire.Release{Ref: q.Ref}
	rs, err := s.store.Release(ctx, []driver.ReleaseRequest{item.Driver()})
	if err != nil {
		return nil, err
	}
	return wire.ReleaseResultOf(item, rs[0]), nil
}

func (s *testServer) sweep(ctx context.Context, q wire.SweepRequest) (any, error) {
	r, err := s.store.Sweep(ctx, q.Driver())
	return wire.SweepAnswer{Holds: r.Holds, Records: r.Records, More: r.More}, err
}

func (s *testServer) filter(q url.Values) (f driver.Filter) {
	for name, values := range q {
		var err error
		switch v := values[0]; name {
		case "resource":
			f.Resource = v
		case "lockId":
			f.LockID = v
		case "owner":
			f.Owner = v
		case "createdBefore":
			f.CreatedBefore, err = time.Parse(time.RFC3339, v)
		case "createdAfter":
			f.CreatedAfter, err = time.Parse(time.RFC3339, v)
		case "ttlBelowMs":
			f.LeftBelow, err = millis(v)
		case "ttlAtLeastMs":
			f.LeftAtLeast, err = millis(v)
		case "expired":
			f.Expired = v == "true"
		default:
			err = errors.New("unknown")
		}
		if err != nil || len(values) != 1 {
			s.t.Errorf("parameter %s=%q: %v", name, values, err)
		}
	}
	return f
}

func millis(v string) (time.Duration, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	return wire.Millis(n).Duration(), err
}

func stream[D, W any](s *testServer, w http.ResponseWriter, r *http.Request, list func(context.Context, driver.Filter) iter.Seq2[D, error], of func(D) W) {
	if !strings.Contains(r.Header.Get("Accept"), wire.NDJSON) {
		s.t.Errorf("a list is asked for as %q", r.Header.Get("Accept"))
	}
	w.Header().Set("Content-Type", wire.NDJSON)
	lines, count := json.NewEncoder(w), 0
	for entry, err := range list(r.Context(), s.filter(r.URL.Query())) {
		if err != nil {
			refusal := wire.NewRefusal(wire.KindOf(err), err.Error())
			_ = lines.Encode(wire.End{Error: &refusal})
			return
		}
		_ = lines.Encode(of(entry))
		count++
	}
	_ = lines.Encode(wire.End{End: &wire.Count{Count: count}})
}

func (s *testServer) watch(w http.ResponseWriter, r *http.Request) {
	watcher, ok := s.store.(driver.Watcher)
	if !ok {
		fail500(w, driver.ErrUnsupported)
		return
	}
	signals, err := watcher.Watch(r.Context(), r.URL.Query().Get("resource"))
	if err != nil {
		fail500(w, err)
		return
	}
	w.Header().Set("Content-Type", wire.Events)
	out := http.NewResponseController(w)
	event := func(text string) {
		_, _ = io.WriteString(w, text+"\n\n")
		_ = out.Flush()
	}
	event("event: ready\ndata:")
	comment := time.NewTicker(wire.KeepAlive)
	defer comment.Stop()
	for {
		select {
		case _, open := <-signals:
			if !open {
				event("event: end\ndata:")
				return
			}
			event("event: signal\ndata:")
		case <-comment.C:
			event(":")
		case <-r.Context().Done():
			return
		}
	}
}
