package server_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/front"
)

// hangUp is a moment at which a caller hangs up, once its acquire has come so far.
type hangUp struct {
	name string
	// decide disturbs the store.
	decide func(drivertest.Call) drivertest.Fault
	// held: another holds the resource, and releases it after the hang-up.
	held bool
	wait wire.Millis
	// granted: the store grants it in the end.
	granted bool
}

var never = func(drivertest.Call) drivertest.Fault { return drivertest.Fault{} }

func hangUps() []hangUp {
	late := attempts(func(int) drivertest.Fault { return drivertest.Fault{HoldRequest: after(5 * time.Second)} })
	silent := answersLate(5 * time.Second)
	return []hangUp{
		{"wait", never, true, 20_000, false},
		{"before the store has the request", late, false, 0, true},
		{"before the store has the request of a wait", late, false, 20_000, true},
		{"before the store's answer", silent, false, 0, true},
		{"before the store's answer to a wait", silent, false, 20_000, true},
	}
}

// A hold whose ID the server made is released when its caller hangs up. One whose ID the
// caller made never is.
func TestHangUp(t *testing.T) {
	for _, h := range hangUps() {
		for _, ours := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/ours=%v", h.name, ours), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty(t, h.decide)
					s := newSite(t, store, nil)
					holder := driver.AcquireRequest{Resource: "r", LockID: "holder", HoldID: driver.NewHoldID(), TTL: time.Minute}
					if h.held {
						if _, err := store.Acquire(t.Context(), holder); err != nil {
							t.Fatal(err)
						}
					}
					q := wire.AcquireRequest{Resource: "r", WaitMs: h.wait, Fair: true, TTLMs: 60_000}
					if !ours {
						q.HoldID = driver.NewHoldID()
					}
					ctx, cancel := context.WithCancel(t.Context())
					answered := s.posting(ctx, wire.AcquirePath, q)
					time.Sleep(time.Second)
					cancel()
					if a := <-answered; a.err == nil {
						t.Fatalf("answered %d %s", a.status, a.body)
					}
					synctest.Wait()
					places := placesOf(t, store, "r")
					if want := h.held && !ours; want != (len(places) == 1) {
						t.Errorf("%d places are left", len(places))
					}
					if h.held {
						ref := driver.HoldRef{Resource: "r", LockID: "holder", HoldID: holder.HoldID}
						if _, err := store.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}}); err != nil {
							t.Fatal(err)
						}
					}
					// The request may arrive late, and the clean-up goes on until it has found it.
					time.Sleep(20 * time.Second)
					holds := stored(t, store, "r")
					if want := h.granted && !ours; want != (len(holds) == 1) {
						t.Errorf("%d holds are left", len(holds))
					}
				})
			})
		}
	}
}

// After the grant, but before the first byte of the answer.
func TestHangUpBeforeTheAnswer(t *testing.T) {
	for _, ours := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := newSite(t, nil, &server.Options{Observer: &server.Observer{
				StoreCall: func(request context.Context, op string, _ time.Duration, _ error) {
					if op == "acquire" {
						cancel()
						<-request.Done()
					}
				},
			}})
			q := wire.AcquireRequest{Resource: "r"}
			if !ours {
				q.HoldID = driver.NewHoldID()
			}
			if a := <-s.posting(ctx, wire.AcquirePath, q); a.err == nil {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			synctest.Wait()
			if holds := stored(t, s.store, "r"); ours != (len(holds) == 0) {
				t.Errorf("ours: %v, %d holds are left", ours, len(holds))
			}
		})
	}
}

// In the middle of the answer: the caller may know the hold ID. It ends by its TTL.
func TestHangUpInTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		conn := s.dial()
		const body = `{"resource":"r"}`
		fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		time.Sleep(29 * time.Second)
		if holds := stored(t, s.store, "r"); len(holds) != 1 {
			t.Errorf("%d holds are left", len(holds))
		}
	})
}

// Before the body is complete: nothing happened.
func TestHangUpInTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, never)
		s := newSite(t, store, nil)
		before := store.Calls(drivertest.Acquire)
		conn := s.dial()
		fmt.Fprint(conn, "POST /v1/acquire HTTP/1.1\r\nHost: server\r\nContent-Length: 100\r\n\r\n", `{"resource":"r"}`)
		time.Sleep(time.Second)
		_ = conn.Close()
		time.Sleep(time.Minute)
		if n := store.Calls(drivertest.Acquire) - before; n != 0 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A half-closed connection counts as hung up, as net/http has it. So does one of HTTP/1.1
// that is closed over a real network, whatever its body was.
func TestHangUpOnTheNetwork(t *testing.T) {
	for _, half := range []bool{true, false} {
		store := memlock.New(nil)
		ended := make(chan struct{}, 1)
		s, err := server.New(store, &server.Options{Observer: &server.Observer{Wait: func(n int) {
			if n < 0 {
				ended <- struct{}{}
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		h := front.Server(s, nil)
		served := make(chan struct{})
		go func() { defer close(served); _ = h.Serve(listener) }()
		if _, err := store.Acquire(t.Context(), driver.AcquireRequest{Resource: "r", LockID: "l", HoldID: driver.NewHoldID(), TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		const body = `{"resource":"r","waitMs":25000}`
		fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: server\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if half {
			_ = conn.(*net.TCPConn).CloseWrite()
		} else {
			_ = conn.Close()
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("half: %v: the wait goes on", half)
		}
		_ = conn.Close()
		_ = h.Close()
		<-served
		_ = s.Close()
		_ = store.Close()
	}
}

// Two servers and one hold ID. The first try is cut while its call of the store is delayed,
// and the second is granted by the other server: that hold outlives what the first server
// still does.
func TestCutAndRepeatedElsewhere(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 100
	}
	for run := range runs {
		synctest.Test(t, func(t *testing.T) {
			direct := memlock.New(nil)
			delayed := faultyOf(t, direct, attempts(func(int) drivertest.Fault {
				if run%2 == 0 {
					return drivertest.Fault{HoldReply: after(5 * time.Second)}
				}
				return drivertest.Fault{HoldRequest: after(5 * time.Second)}
			}))
			first := newSite(t, delayed, nil)
			second := newSite(t, direct, nil)
			q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: wire.Millis(run % 3 * 10_000), TTLMs: 60_000}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+run)*4*time.Millisecond)
			defer cancel()
			if a := <-first.posting(ctx, wire.AcquirePath, q); a.err == nil {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			g := second.acquire(q)
			time.Sleep(50 * time.Second)
			if r := second.renew(refOf(g), 60_000); r.Outcome != wire.Renewed {
				t.Fatalf("run %d: %+v", run, r)
			}
			if holds := stored(t, direct, "r"); len(holds) != 1 || holds[0].Token != g.Token {
				t.Fatalf("run %d: %+v", run, holds)
			}
		})
	}
}

// The clean-up goes on while the store does not answer, and does not outlive the TTL.
func TestCleanUpIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			switch {
			case c.Op == drivertest.Acquire:
				return drivertest.Fault{LoseReply: true}
			case c.Op == drivertest.Release && down.Load():
				return drivertest.Fault{LoseRequest: true}
			}
			return drivertest.Fault{}
		})
		s := newSite(t, store, nil)
		down.Store(true)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 60_000}), wire.KindUnknown)
		time.Sleep(20 * time.Second)
		if n := len(stored(t, store, "r")); n != 1 {
			t.Fatalf("%d holds", n)
		}
		down.Store(false)
		time.Sleep(15 * time.Second)
		if n := len(stored(t, store, "r")); n != 0 {
			t.Fatalf("%d holds are left", n)
		}
		asked := store.Calls(drivertest.Release)
		time.Sleep(10 * time.Minute)
		if n := store.Calls(drivertest.Release); n != asked {
			t.Errorf("%d releases more", n-asked)
		}
	})
}

// A hold that was granted without an answer is not released once somebody has found it by its
// lock ID, and has renewed it, wherever. Its place is.
func TestCleanUpSparesWhatIsUsed(t *testing.T) {
	for _, c := range []struct {
		name                   string
		waits, elsewhere, lost bool // lost: the answer to the renewal
	}{
		{name: "at once"},
		{name: "a wait with a place", waits: true},
		{name: "through another server", elsewhere: true},
		{name: "a wait with a place, through another server", waits: true, elsewhere: true},
		{name: "without an answer", lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var silent, down, lost atomic.Bool
				direct := memlock.New(nil)
				store := faultyOf(t, direct, func(c drivertest.Call) drivertest.Fault {
					return drivertest.Fault{
						LoseReply:   c.Op == drivertest.Acquire && silent.Load() || c.Op == drivertest.Renew && lost.Load(),
						LoseRequest: c.Op == drivertest.Release && down.Load(),
					}
				})
				s, other := newSite(t, store, nil), newSite(t, store, nil)
				q := wire.AcquireRequest{Resource: "r", LockID: "l", TTLMs: 60_000}
				if c.waits {
					holder := s.acquire(wire.AcquireRequest{Resource: "r"})
					q.WaitMs, q.Fair = 20_000, true
					ctx, cancel := context.WithCancel(t.Context())
					answered := s.posting(ctx, wire.AcquirePath, q)
					synctest.Wait()
					if n := len(placesOf(t, direct, "r")); n != 1 {
						t.Fatalf("%d places", n)
					}
					silent.Store(true)
					s.release(refOf(holder))
					down.Store(true)
					time.Sleep(time.Second)
					cancel()
					<-answered
				} else {
					silent.Store(true)
					down.Store(true)
					mustBe(t, s.post(wire.AcquirePath, q), wire.KindUnknown)
				}
				synctest.Wait()
				found := stored(t, direct, "r")
				if len(found) != 1 || found[0].LockID != "l" {
					t.Fatalf("%+v", found)
				}
				at := s
				if c.elsewhere {
					at = other
				}
				lost.Store(c.lost)
				at.renew(wire.RefOfHold(found[0].Ref()), 600_000)
				down.Store(false)
				time.Sleep(9 * time.Minute)
				if holds := stored(t, direct, "r"); len(holds) != 1 || holds[0].Token != found[0].Token {
					t.Errorf("%+v", holds)
				}
				if places := placesOf(t, direct, "r"); len(places) != 0 {
					t.Errorf("%+v", places)
				}
			})
		})
	}
}

// What is owed when the server ends is tried once more, although its next time has not come.
func TestCloseCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		direct := memlock.New(nil)
		s := newSite(t, faultyOf(t, direct, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{
				LoseReply:   c.Op == drivertest.Acquire && down.Load(),
				LoseRequest: c.Op == drivertest.Release && down.Load(),
			}
		}), nil)
		down.Store(true)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000}), wire.KindUnknown)
		time.Sleep(40 * time.Second) // the pauses have become long
		down.Store(false)
		if err := s.Server.Close(); err != nil {
			t.Error(err)
		}
		if holds := stored(t, direct, "r"); len(holds) != 0 {
			t.Errorf("%+v", holds)
		}
	})
}

// A caller that gives up its wait and comes again with the same hold ID keeps what it is granted
// then, although the clean-up of the wait was about to be sent.
func TestCleanUpOfWhatCameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct := memlock.New(nil)
		var silent atomic.Bool
		began, goOn := make(chan struct{}, 1), make(chan struct{})
		store := faultyOf(t, direct, func(c drivertest.Call) drivertest.Fault {
			switch {
			case c.Op == drivertest.Release && silent.Load() && c.Refs[0].Resource == "other":
				began <- struct{}{}
				return drivertest.Fault{HoldRequest: goOn}
			case c.Op == drivertest.Acquire && silent.Load():
				return drivertest.Fault{LoseRequest: true}
			}
			return drivertest.Fault{}
		})
		s := newSite(t, store, nil)
		silent.Store(true)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "other"}), wire.KindUnknown)
		<-began // the clean-up waits for this answer
		q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID()}
		mustBe(t, s.post(wire.AcquirePath, q), wire.KindUnknown)
		silent.Store(false)
		g := s.acquire(q)
		close(goOn)
		time.Sleep(time.Minute / 4)
		if holds := stored(t, direct, "r"); len(holds) != 1 || holds[0].Token != g.Token {
			t.Errorf("%+v", holds)
		}
	})
}

// An attempt without an answer may be applied later, so a wait that ends after it is not
// told that the resource is held, unless the server cleans up itself.
func TestUnknownAttempt(t *testing.T) {
	for _, ours := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			// The first attempt is that of the holder.
			s := newSite(t, faulty(t, attempts(func(n int) drivertest.Fault { return drivertest.Fault{LoseRequest: n == 2} })), nil)
			s.acquire(wire.AcquireRequest{Resource: "r", LockID: "holder"})
			q := wire.AcquireRequest{Resource: "r", WaitMs: 2000}
			if !ours {
				q.HoldID = driver.NewHoldID()
			}
			a := s.post(wire.AcquirePath, q)
			if want := map[bool]wire.Kind{true: wire.KindHeld, false: wire.KindUnknown}[ours]; a.kind() != want {
				t.Errorf("ours: %v: %d %s", ours, a.status, a.body)
			}
		})
	}
}
