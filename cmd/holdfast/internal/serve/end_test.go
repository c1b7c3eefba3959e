package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/meters"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
)

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// While a slow request is under way after the end of the waits, holders are served over new
// connections. Then the server listens no longer.
func TestEndDuringASlowRequest(t *testing.T) {
	slow, asked := make(chan struct{}), make(chan struct{})
	store := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
		if c.Op == drivertest.Acquire && c.Refs[0].Resource == "slow" {
			close(asked)
			return drivertest.Fault{HoldReply: slow}
		}
		return drivertest.Fault{}
	})
	defer store.Close()
	s, err := server.New(store, nil)
	check(t, err)
	defer s.Close()
	check(t, s.WaitReady(t.Context()))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	r := &running{meters: meters.New(), server: s, underWay: newUnderWay(), failed: make(chan error, 1)}
	r.serve(r.underWay.counts(s), []listener{{l, "http://" + l.Addr().String(), "everybody"}})
	base := "http://" + l.Addr().String()

	_, g := post[wire.Grant](t, base+wire.AcquirePath, wire.AcquireRequest{Resource: "r"})
	answered := make(chan int, 1)
	go func() {
		status, _ := post[wire.Grant](t, base+wire.AcquirePath, wire.AcquireRequest{Resource: "slow"})
		answered <- status
	}()
	<-asked
	ended := make(chan error, 1)
	go func() { ended <- r.endWaits(context.Background()) }()
	for status := 0; status != http.StatusServiceUnavailable; { // until waits are over
		status, _ = post[wire.Refusal](t, base+wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: 1})
		if status == 0 {
			t.FailNow()
		}
	}
	renewal := wire.Renewal{Ref: wire.Ref{Resource: "r", LockID: g.LockID, HoldID: g.HoldID}}
	began := time.Now()
	for time.Since(began) < 100*time.Millisecond {
		status, a := post[wire.RenewAnswer](t, base+wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{renewal}})
		if status != http.StatusOK || a.Results[0].Outcome != wire.Renewed {
			t.Fatalf("a renewal: %d %+v", status, a)
		}
	}
	close(slow)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the slow request: %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}

// A store that does not answer keeps the process no longer than some seconds, and a signal
// ends it at once.
func TestEndWithAStoreThatHangs(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := hangingStore{memlock.New(nil), make(chan struct{})}
			defer close(store.goOn)
			r := &running{store: store}
			stops, began := make(chan os.Signal, 1), time.Now()
			if signalled {
				stops <- syscall.SIGTERM
			}
			err, took := r.end(nil, stops), time.Since(began)
			if signalled != (err != nil) || signalled != (took == 0) || took > lastClose {
				t.Errorf("signalled: %v: %v after %v", signalled, err, took)
			}
		})
	}
}

// hangingStore does not close.
type hangingStore struct {
	driver.Store
	goOn chan struct{}
}

func (s hangingStore) Close() error {
	<-s.goOn
	return s.Store.Close()
}

// post sends the request over a new connection. The status is 0 if there is no answer.
func post[T any](t *testing.T, url string, body any) (status int, answer T) {
	text, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
		return 0, answer
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		t.Error(err)
		return 0, answer
	}
	r.Header.Set("Content-Type", wire.JSON)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Error(err)
		return 0, answer
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, answer
}
