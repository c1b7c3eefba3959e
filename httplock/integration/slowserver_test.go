package httplock_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/memlock"
)

// A request that gets a reused connection after waiting for it has all its time for the
// answer. No new connection is possible, so the request waits for the connection of a
// slow one.
func TestPatienceBeginsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		store := drivertest.NewFaultStore(lend(memlock.New(nil)), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Acquire && c.Refs[0].Resource == "slow" {
				return drivertest.Fault{HoldRequest: goOn}
			}
			return drivertest.Fault{}
		})
		s, over := inMemorySite(t, store)
		var dialed atomic.Bool
		far := openOver(t, s.url, &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if !dialed.Swap(true) {
				return over.DialContext(ctx, network, address)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		granted := make(chan error, 2)
		acquire := func(resource string) {
			_, err := far.Acquire(ctx, ask.Request(resource, "a"))
			granted <- err
		}
		go acquire("slow")
		synctest.Wait()
		go acquire("r")
		time.Sleep(7 * time.Second) // longer than a reused connection gets
		close(goOn)
		for range 2 {
			if err := <-granted; err != nil {
				t.Error(err)
			}
		}
		var holds int
		for _, err := range far.List(ctx, driver.Filter{}) {
			if err != nil {
				t.Error(err)
			}
			holds++
		}
		if holds != 2 {
			t.Errorf("%d holds, want 2", holds)
		}
	})
}

// A slow server does not get every request twice, which would make it slower.
func TestSlowServerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		var takes time.Duration
		store := drivertest.NewFaultStore(lend(memlock.New(nil)), func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Renew || c.Refs[0].Resource != "r" { // the server looks at its own hold
				return drivertest.Fault{}
			}
			asked++
			goOn := make(chan struct{})
			time.AfterFunc(takes, func() { close(goOn) })
			return drivertest.Fault{HoldRequest: goOn}
		})
		s, over := inMemorySite(t, store)
		far := openOver(t, s.url, over)
		ref := ask.Granted(t, far, ask.Request("r", "a"))
		renewals := func(n int) int {
			t.Helper()
			asked = 0
			for range n {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				rs, err := far.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
				cancel()
				if err != nil || rs[0].Err != nil {
					t.Errorf("%v, error %v", rs, err)
				}
			}
			return asked
		}
		if n := renewals(5); n != 5 {
			t.Errorf("%d requests for 5 renewals", n)
		}
		takes = 1100 * time.Millisecond // longer than a reused connection gets
		if n := renewals(20); n != 21 {
			t.Errorf("%d requests for 20 renewals of a slow store", n)
		}
		takes = 0
		if n := renewals(5); n != 5 {
			t.Errorf("%d requests for 5 renewals", n)
		}
		takes = 1100 * time.Millisecond // slow again
		if n := renewals(20); n != 21 {
			t.Errorf("%d requests for 20 renewals of a slow store", n)
		}
	})
}

// silent is a connection that the network may have dropped: written data gets lost, and
// nothing arrives.
type silent struct {
	net.Conn
	dropped *atomic.Bool
}

func (s silent) Write(p []byte) (int, error) {
	if s.dropped.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

// Even if a server counts as slow, a silent connection is replaced in time.
func TestSilentConnectionOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes time.Duration
		store := drivertest.NewFaultStore(lend(memlock.New(nil)), func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Renew || takes == 0 {
				return drivertest.Fault{}
			}
			goOn := make(chan struct{})
			time.AfterFunc(takes, func() { close(goOn) })
			return drivertest.Fault{HoldRequest: goOn}
		})
		s, over := inMemorySite(t, store)
		dropped := new(atomic.Bool)
		far := openOver(t, s.url, &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := over.DialContext(ctx, network, address)
			return silent{c, dropped}, err
		}})
		ref := ask.Granted(t, far, ask.Request("r", "a"))
		renew := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			rs, err := far.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
			if err == nil {
				err = rs[0].Err
			}
			return err
		}
		takes = 1100 * time.Millisecond
		for range 3 {
			if err := renew(); err != nil {
				t.Fatal(err)
			}
		}
		takes = 0
		old := dropped
		dropped = new(atomic.Bool) // new connections live
		old.Store(true)
		if err := renew(); err != nil {
			t.Error(err)
		}
	})
}
