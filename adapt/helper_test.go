package adapt_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// inBubble runs a subtest in a synctest bubble.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// newClient makes a Client that is closed at the end of the test. Two Clients of one store
// represent two processes.
func newClient(t *testing.T, store driver.Store) *holdfast.Client {
	t.Helper()
	c := holdfast.New(store, &holdfast.Options{NoSweep: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pair is a store, the Client of an adapter, and the Client of another process.
func pair(t *testing.T) (mine, others *holdfast.Client) {
	t.Helper()
	store := memlock.New(nil)
	return newClient(t, store), newClient(t, store)
}

// unreachable makes a Client whose store does not answer while it is cut off.
func unreachable(t *testing.T) (mine, others *holdfast.Client, cut func(bool)) {
	t.Helper()
	var down atomic.Bool
	store := memlock.New(nil)
	f := drivertest.NewFaultStore(store, func(drivertest.Call) drivertest.Fault {
		return drivertest.Fault{LoseRequest: down.Load()}
	})
	return newClient(t, f), newClient(t, store), down.Store
}

// failing makes a Client of a store whose calls fail with the given error.
func failing(t *testing.T) (mine, others *holdfast.Client, set func(func(drivertest.Call) drivertest.Fault)) {
	t.Helper()
	store := memlock.New(nil)
	var now atomic.Value
	f := drivertest.NewFaultStore(store, func(c drivertest.Call) drivertest.Fault {
		if fault, ok := now.Load().(func(drivertest.Call) drivertest.Fault); ok {
			return fault(c)
		}
		return drivertest.Fault{}
	})
	t.Cleanup(func() { _ = f.Close() })
	return newClient(t, f), newClient(t, store), func(fault func(drivertest.Call) drivertest.Fault) { now.Store(fault) }
}

func fails(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseRequest: true} }
func hangs(drivertest.Call) drivertest.Fault {
	return drivertest.Fault{HoldRequest: make(chan struct{})}
}
func works(drivertest.Call) drivertest.Fault { return drivertest.Fault{} }

// seize releases the resource by force, as an operator does.
func seize(t *testing.T, c *holdfast.Client, resource string) {
	t.Helper()
	if n, err := c.Admin().ForceRelease(t.Context(), resource, holdfast.HoldID{}); err != nil || len(n) != 1 {
		t.Errorf("ForceRelease of %q: %d holds, error %v", resource, len(n), err)
	}
}

// free reports whether another client could lock the resource now.
func free(t *testing.T, c *holdfast.Client, resource string) bool {
	t.Helper()
	h, err := c.TryLock(t.Context(), resource, nil)
	if errors.Is(err, holdfast.ErrHeld) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	return true
}

// lost waits until ctx has ended because of a loss.
func lost(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) {
			t.Errorf("the ctx ended with %v", cause)
		}
	case <-time.After(time.Minute):
		t.Error("the ctx did not end after the loss")
	}
}

// is checks an error; want may be nil.
func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}
