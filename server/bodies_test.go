package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
)

// begun sends a part of the body of a renewal that says to have 16 MiB.
func (s *site) begun(sending *sync.WaitGroup, who, path string, part int) net.Conn {
	conn := s.dial()
	sending.Go(func() {
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: server\r\nWho: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, who, wire.MaxBody)
		_, _ = io.WriteString(conn, strings.Repeat(" ", part))
	})
	return conn
}

// manyHolds is a renewal or a release of the hold that has so many bytes.
func manyHolds(g wire.Grant, size int) string {
	return fmt.Sprintf(`{"holds":[{"resource":%q,"lockId":%q,"holdId":%q}]%s}`, g.Resource, g.LockID, g.HoldID, strings.Repeat(" ", size))
}

// Large requests that do not get on keep nobody else's renewals and releases out, and none
// that are small.
func TestSlowLargeBodies(t *testing.T) {
	for name, c := range map[string]struct{ part, size int }{
		"that are not large yet, and a large one": {100, 300 << 10},
		"and a large one":                         {300 << 10, 300 << 10},
		"and a small one":                         {300 << 10, 0},
		"and one that is just small":              {300 << 10, 255 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
				g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), TTLMs: 600_000}))
				var sending sync.WaitGroup
				defer time.Sleep(time.Second) // net/http waits before it closes a connection
				for _, path := range []string{wire.RenewPath, wire.ReleasePath} {
					for range 8 {
						defer s.begun(&sending, "bob", path, c.part).Close()
					}
				}
				synctest.Wait()
				for _, path := range []string{wire.RenewPath, wire.ReleasePath} {
					got := s.posting(t.Context(), path, manyHolds(g, c.size), "Who", "alice")
					synctest.Wait()
					select {
					case a := <-got:
						if a.status != http.StatusOK {
							t.Errorf("%s: %d %s %v", path, a.status, a.body, a.err)
						}
					default:
						t.Errorf("%s waits", path)
						<-got
					}
				}
			})
		})
	}
}

// What a caller has sent of bodies that are not complete counts. It can still renew some holds,
// and others are not concerned.
func TestTooLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 256<<10 - 4<<10 // the memory of 200 KiB, less what is free
		shares := map[budget.Stock]budget.Share{budget.Bodies: {Caller: 4 * each, All: 3 << 20}}
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify, Budget: budget.New(&budget.Options{Shares: shares})})
		g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), TTLMs: 600_000}))
		var sending sync.WaitGroup
		defer time.Sleep(time.Second) // net/http waits before it closes a connection
		var conns []net.Conn
		for range 4 {
			conn := s.begun(&sending, "alice", wire.RenewPath, 200<<10)
			defer conn.Close()
			conns = append(conns, conn)
		}
		synctest.Wait()
		for _, path := range []string{wire.RenewPath, wire.ReleasePath} {
			for size, want := range map[int]int{3 << 10: http.StatusOK, 5 << 10: http.StatusTooManyRequests} {
				if a := s.do(t.Context(), http.MethodPost, path, manyHolds(g, size), "Who", "alice"); a.status != want {
					t.Errorf("%s of %d bytes: %d %s", path, size, a.status, a.body)
				}
			}
		}
		if a := s.do(t.Context(), http.MethodPost, wire.RenewPath, manyHolds(g, 300<<10), "Who", "bob"); a.status != http.StatusOK {
			t.Errorf("of another caller: %d %s", a.status, a.body)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		synctest.Wait()
		if a := s.do(t.Context(), http.MethodPost, wire.RenewPath, manyHolds(g, 300<<10), "Who", "alice"); a.status != http.StatusOK {
			t.Errorf("after the others have ended: %d %s", a.status, a.body)
		}
		sending.Wait()
	})
}

// Behind a proxy callers without names are counted by the addresses that it says.
func TestLargeBodiesBehindProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := map[budget.Stock]budget.Share{budget.Bodies: {Caller: 1 << 20, All: 3 << 20}}
		s := newSite(t, nil, &server.Options{Budget: budget.New(&budget.Options{Shares: shares})})
		g := s.acquire(wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), TTLMs: 600_000})
		h, err := front.Handler(s.Server, &front.Options{
			Identify: func(*http.Request) (access.Caller, error) { return access.Everybody(), nil },
			Hosts:    []string{"server"},
			Proxies:  []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")},
		})
		if err != nil {
			t.Fatal(err)
		}
		send := func(from string, body io.Reader) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://server"+wire.RenewPath, body)
			r.RemoteAddr = "192.0.2.1:1"
			r.Header.Set("X-Forwarded-For", from)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		var sending sync.WaitGroup
		defer sending.Wait()
		for range 2 {
			body, more := io.Pipe()
			sending.Go(func() { send("192.0.2.2", body) })
			sending.Go(func() { _, _ = io.WriteString(more, strings.Repeat(" ", 300<<10)) })
			defer more.Close()
		}
		synctest.Wait()
		for from, want := range map[string]int{"192.0.2.2": http.StatusTooManyRequests, "192.0.2.3": http.StatusOK} {
			if got := send(from, strings.NewReader(manyHolds(g, 300<<10))); got != want {
				t.Errorf("from %s: %d, want %d", from, got, want)
			}
		}
	})
}

// A caller that sends slowly what nobody reads is told why, and keeps its connection no
// longer than a body may take.
func TestSlowBodyThatNobodyReads(t *testing.T) {
	for name, c := range map[string]struct {
		path          string
		length, until int // bytes, each of which takes a second
		want          int
	}{
		"no such path":        {"/v1/nothing", 20, 20, http.StatusNotFound},
		"no caller":           {wire.AcquirePath, 20, 20, http.StatusUnauthorized},
		"and that has no end": {wire.AcquirePath, 100, 30, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
				conn := s.dial()
				defer time.Sleep(time.Second) // net/http waits before it closes a connection
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: server\r\nContent-Length: %d\r\n\r\n", c.path, c.length)
				began := time.Now()
				go func() {
					for range c.length {
						time.Sleep(time.Second)
						if _, err := io.WriteString(conn, " "); err != nil {
							return
						}
					}
				}()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				took := time.Since(began)
				if err != nil {
					t.Fatalf("%v after %v", err, took)
				}
				_ = answer.Body.Close()
				if answer.StatusCode != c.want || took > time.Duration(c.until)*time.Second {
					t.Errorf("%d after %v", answer.StatusCode, took)
				}
			})
		})
	}
}
