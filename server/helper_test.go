package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/pipenet"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/front"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		serveAsChild()
		return
	}
	leaktest.Main(m)
}

// site is a server under test and a caller of it, in memory.
type site struct {
	*server.Server
	t     testing.TB
	store driver.Store
	pipes *pipenet.Listener
	http  *http.Client
}

// dial makes a connection of its own.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := s.pipes.DialContext(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// newSite serves the store, or a new one in memory, over connections in memory.
func newSite(t testing.TB, store driver.Store, opts *server.Options) *site {
	t.Helper()
	if store == nil {
		store = memlock.New(nil)
		t.Cleanup(func() { _ = store.Close() })
	}
	s, err := server.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := pipenet.Listen()
	h := front.Server(s, nil)
	var served sync.WaitGroup
	served.Go(func() { _ = h.Serve(p) })
	transport := &http.Transport{DialContext: p.DialContext, MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = h.Close()
		served.Wait()
		_ = s.Close()
	})
	return &site{Server: s, t: t, store: store, pipes: p, http: &http.Client{Transport: transport}}
}

// answer is what a request came to.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of the connection
}

func (a answer) kind() wire.Kind {
	var r wire.Refusal
	if json.Unmarshal(a.body, &r) != nil || a.header.Get("Content-Type") != wire.ProblemJSON {
		return ""
	}
	return r.Kind()
}

// do sends a request, with v as its body, or v itself if it is a string.
func (s *site) do(ctx context.Context, method, path string, v any, headers ...string) answer {
	var text []byte
	switch v := v.(type) {
	case nil:
	case string:
		text = []byte(v)
	default:
		var err error
		if text, err = json.Marshal(v); err != nil {
			s.t.Fatal(err)
		}
	}
	var body io.Reader
	if v != nil {
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", wire.JSON)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	a := answer{status: resp.StatusCode, header: resp.Header, body: read, err: err}
	if err == nil {
		heldAgainstDocument(s.t, method, path, text, a)
	}
	return a
}

func (s *site) post(path string, v any, headers ...string) answer {
	return s.do(s.t.Context(), http.MethodPost, path, v, headers...)
}

func (s *site) get(path string, headers ...string) answer {
	return s.do(s.t.Context(), http.MethodGet, path, nil, headers...)
}

// posting sends a request in a goroutine of its own.
func (s *site) posting(ctx context.Context, path string, v any, headers ...string) <-chan answer {
	ch := make(chan answer, 1)
	go func() { ch <- s.do(ctx, http.MethodPost, path, v, headers...) }()
	return ch
}

// acquire returns the grant of a request that must succeed.
func (s *site) acquire(r wire.AcquireRequest) wire.Grant {
	s.t.Helper()
	return grantOf(s.t, s.post(wire.AcquirePath, r))
}

func grantOf(t testing.TB, a answer) wire.Grant {
	t.Helper()
	if a.err != nil || a.status != http.StatusOK {
		t.Fatalf("acquire: %d %s %v", a.status, a.body, a.err)
	}
	return read[wire.Grant](t, a)
}

func heldOf(t testing.TB, a answer) wire.Refusal {
	t.Helper()
	if a.kind() != wire.KindHeld {
		t.Fatalf("got %d %s %v, want a refusal because it is held", a.status, a.body, a.err)
	}
	return read[wire.Refusal](t, a)
}

func mustBe(t testing.TB, a answer, kind wire.Kind) {
	t.Helper()
	if a.kind() != kind {
		t.Fatalf("got %d %s %v, want kind %q", a.status, a.body, a.err, kind)
	}
}

func read[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

func refOf(g wire.Grant) wire.Ref {
	return wire.Ref{Resource: g.Resource, LockID: g.LockID, HoldID: g.HoldID, Token: g.Token}
}

func (s *site) renew(ref wire.Ref, ttl wire.Millis) wire.RenewResult {
	s.t.Helper()
	a := s.post(wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: ref, TTLMs: ttl}}})
	if a.status != http.StatusOK {
		s.t.Fatalf("renew: %d %s %v", a.status, a.body, a.err)
	}
	return read[wire.RenewAnswer](s.t, a).Results[0]
}

func (s *site) release(ref wire.Ref) wire.ReleaseResult {
	s.t.Helper()
	a := s.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: ref}}})
	if a.status != http.StatusOK {
		s.t.Fatalf("release: %d %s %v", a.status, a.body, a.err)
	}
	return read[wire.ReleaseAnswer](s.t, a).Results[0]
}

// stored returns the holds of the resource.
func stored(t testing.TB, store driver.Store, resource string) (all []driver.Status) {
	t.Helper()
	for h, err := range store.List(context.Background(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// placesOf returns the places in the queue of the resource.
func placesOf(t testing.TB, store driver.Store, resource string) (all []driver.PlaceID) {
	t.Helper()
	for p, err := range driver.Waiters(context.Background(), store, driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.ID)
	}
	return all
}

// placeOf is the ID that all servers give the store for a place of the caller.
func placeOf(caller string, id driver.PlaceID) driver.PlaceID {
	sum := sha256.Sum256([]byte("holdfast place:" + caller + ":" + id.String()))
	return driver.PlaceID(sum[:len(id)])
}

// faulty puts a FaultStore in front of a new store in memory. The server's own requests
// about its ID pass.
func faulty(t testing.TB, decide func(drivertest.Call) drivertest.Fault) *drivertest.FaultStore {
	return faultyOf(t, memlock.New(nil), decide)
}

func faultyOf(t testing.TB, store driver.Store, decide func(drivertest.Call) drivertest.Fault) *drivertest.FaultStore {
	f := drivertest.NewFaultStore(store, func(c drivertest.Call) drivertest.Fault {
		if len(c.Refs) > 0 && c.Refs[0].Resource == "holdfast/server" {
			return drivertest.Fault{}
		}
		return decide(c)
	})
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// attempts disturbs the attempts to acquire, of which the first is number 1.
func attempts(fault func(n int) drivertest.Fault) func(drivertest.Call) drivertest.Fault {
	var n atomic.Int64
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op == drivertest.Acquire {
			return fault(int(n.Add(1)))
		}
		return drivertest.Fault{}
	}
}

// answersLate is attempts whose answers take that time.
func answersLate(d time.Duration) func(drivertest.Call) drivertest.Fault {
	return attempts(func(int) drivertest.Fault { return drivertest.Fault{HoldReply: after(d)} })
}

// after returns a channel that closes when the time has passed.
func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}

// direct is a transport that calls the handler itself.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// lateStore fails until it is ready, and while it is down.
type lateStore struct {
	driver.Store
	mu          sync.Mutex
	ready, down bool
}

var errLate = errors.New("no answer")

func (s *lateStore) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.down {
		return errLate
	}
	return nil
}

func (s *lateStore) setReady() { s.mu.Lock(); defer s.mu.Unlock(); s.ready = true }
func (s *lateStore) setDown()  { s.mu.Lock(); defer s.mu.Unlock(); s.down = true }

func (s *lateStore) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := s.err(); err != nil {
		return driver.Grant{}, err
	}
	return s.Store.Acquire(ctx, q)
}

func (s *lateStore) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, qs)
}
