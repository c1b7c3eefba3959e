package httplock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// pipes is a listener whose connections are in memory, for bubbles of testing/synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inMemorySite serves the store over connections in memory.
func inMemorySite(t testing.TB, store driver.Store) (*site, *http.Transport) {
	t.Helper()
	p := newPipes()
	s := listenAt(t, p, store, nil)
	s.url = "http://127.0.0.1:1"
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(transport.CloseIdleConnections)
	return s, transport
}

// whole is a store that can all that a store may.
type whole interface {
	driver.Store
	driver.Watcher
	driver.Queue
	driver.Initializer
}

// lent is a store that belongs to somebody else.
type lent struct{ whole }

func lend(s driver.Store) lent { return lent{s.(whole)} }

func (lent) Close() error { return nil }

// first is what becomes of the first try.
type first struct {
	waits    bool // it is a request that may wait, as callers of other languages send
	answered bool // the store has decided by the time that the caller hangs up
}

// The first try was cut while its store call was under way, and the second one, by another
// server, is granted. When the first server's call returns, the hold stays.
func outlive(t *testing.T, open func(t testing.TB) driver.Store, how first) {
	store := open(t)
	t.Cleanup(func() { _ = store.Close() })
	late, reached := make(chan struct{}), make(chan struct{})
	delayed := drivertest.NewFaultStore(lend(store), func(c drivertest.Call) drivertest.Fault {
		switch {
		case c.Op != drivertest.Acquire || c.Refs[0].Resource != "r":
			return drivertest.Fault{}
		case how.answered:
			close(reached)
			return drivertest.Fault{HoldReply: late}
		}
		close(reached)
		return drivertest.Fault{HoldRequest: late}
	})
	one, throughOne := inMemorySite(t, delayed)
	other, throughOther := inMemorySite(t, lend(store))
	q := ask.Request("r", "a")
	q.TTL = time.Minute

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cut := make(chan error, 1)
	if how.waits {
		body := fmt.Sprintf(`{"resource":"r","lockId":"a","holdId":%q,"ttlMs":60000,"waitMs":20000}`, q.HoldID)
		go func() { cut <- post(ctx, throughOne, one.url+"/v1/acquire", body) }()
	} else {
		s := openOver(t, one.url, throughOne)
		go func() { _, err := s.Acquire(ctx, q); cut <- err }()
	}
	<-reached
	cancel()
	if err := <-cut; !errors.Is(err, context.Canceled) {
		t.Errorf("the first try, cut off: %v", err)
	}
	second := openOver(t, other.url, throughOther)
	ref := ask.Granted(t, second, q)
	close(late)
	// What the server does about a caller that hung up, it has done by its end.
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	rs, err := second.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil || rs[0].Err != nil {
		t.Errorf("the hold that the second try was granted: %v %v", rs, err)
	}
	again := ask.Refused(t, second, ask.Request("r", "another"))
	if len(again.Holders) != 1 || again.Holders[0].Token != ref.Token {
		t.Errorf("held by %+v, want token %d", again.Holders, ref.Token)
	}
	if !ask.Released(t, second, ref, 0) {
		t.Error("the hold was not there to be released")
	}
}

// open1 opens a store over the transport, and closes it with the test.
func openOver(t testing.TB, url string, over *http.Transport) *httplock.Store {
	t.Helper()
	s, err := httplock.New(url, &httplock.Options{Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// post sends a request whose answer matters to nobody.
func post(ctx context.Context, over *http.Transport, url, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := over.RoundTrip(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return err
}

func TestHoldOutlivesFirstServer(t *testing.T) {
	runs := 250 // of each
	if testing.Short() {
		runs = 10
	}
	for _, how := range []first{{}, {answered: true}, {waits: true}, {waits: true, answered: true}} {
		t.Run(fmt.Sprintf("%+v", how), func(t *testing.T) {
			t.Parallel()
			for range runs {
				synctest.Test(t, func(t *testing.T) {
					outlive(t, func(testing.TB) driver.Store { return memlock.New(nil) }, how)
				})
			}
		})
		t.Run(fmt.Sprintf("sqlite/%+v", how), func(t *testing.T) {
			t.Parallel()
			for range max(1, runs/50) {
				outlive(t, onSQLite(t).open, how)
			}
		})
	}
}
