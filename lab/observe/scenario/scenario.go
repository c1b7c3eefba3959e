// Package scenario makes Clients do everything that metrics and traces report, for the tests of
// package observe and of its rules.
package scenario

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// SQLite opens a store that is closed with the test.
func SQLite(t testing.TB) driver.Store {
	t.Helper()
	s, err := sqlitelock.Open(t.Context(), filepath.Join(t.TempDir(), "locks.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Run makes a Client of the store, with the Trace, do everything that is reported. One acquire
// is refused, one waits in vain and one gets no answer. One hold is released by force, one
// expires and one is lost in an outage. One release is not confirmed. Then Run calls look,
// while "jobs/held" is held and another call waits for it, and closes the Client.
func Run(t testing.TB, store driver.Store, trace *holdfast.Trace, look func()) {
	t.Helper()
	ctx := t.Context()
	var outage atomic.Bool
	faulty := drivertest.NewFaultStore(store, func(drivertest.Call) drivertest.Fault {
		return drivertest.Fault{LoseRequest: outage.Load()}
	})
	defer faulty.Close()
	settled := make(chan struct{}, 1)
	mark := &holdfast.Trace{Failed: func(_ context.Context, i holdfast.FailInfo) {
		if errors.Is(i.Err, holdfast.ErrInvalid) {
			settled <- struct{}{}
		}
	}}
	c := holdfast.New(faulty, &holdfast.Options{NoSweep: true, Trace: holdfast.Traces(trace, mark)})
	d := holdfast.New(store, &holdfast.Options{NoSweep: true})
	defer c.Close()
	defer d.Close()
	lock := func(resource string, o *holdfast.LockOptions) *holdfast.Hold {
		h, err := c.Lock(ctx, resource, o)
		must(t, err, nil)
		return h
	}

	h := lock("jobs/1", nil)
	must(t, h.Renew(ctx, 0), nil)
	must(t, h.Unlock(ctx), nil)

	other, err := d.Lock(ctx, "jobs/2", nil)
	must(t, err, nil)
	_, err = c.TryLock(ctx, "jobs/2", nil)
	must(t, err, holdfast.ErrHeld)
	few, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	_, err = c.Lock(few, "jobs/2", nil)
	cancel()
	must(t, err, holdfast.ErrHeld)
	must(t, other.Unlock(ctx), nil)

	forced := lock("jobs/forced", nil)
	_, err = d.Admin().ForceRelease(ctx, "jobs/forced", forced.ID())
	must(t, err, nil)
	must(t, forced.Renew(ctx, 0), holdfast.ErrForced)

	// With the shortest TTL, grants would come too late in a busy program.
	expired := lock("expired", &holdfast.LockOptions{TTL: time.Second, NoKeepAlive: true})
	<-expired.Context().Done()

	short := &holdfast.LockOptions{TTL: 3 * time.Second / 2}
	cut := lock("cut", short)
	late := lock("late", short)
	outage.Store(true)
	if late.Unlock(ctx) == nil {
		t.Fatal("released without an answer")
	}
	_, err = c.TryLock(ctx, "silent", nil)
	must(t, err, drivertest.ErrFault)
	<-cut.Context().Done()
	must(t, context.Cause(cut.Context()), holdfast.ErrUnreachable)
	outage.Store(false)

	held := lock("jobs/held", nil)
	waited := make(chan error, 1)
	go func() {
		h, err := c.Lock(ctx, "jobs/held", nil)
		if err == nil {
			err = h.Unlock(ctx)
		}
		waited <- err
	}()
	for len(c.Admin().Waiting()) == 0 {
		time.Sleep(time.Millisecond)
	}
	// A Trace gets its events in order: when this failure arrives, all events have arrived.
	_, err = c.Lock(ctx, "", nil)
	must(t, err, holdfast.ErrInvalid)
	<-settled
	look()
	must(t, held.Unlock(ctx), nil)
	must(t, <-waited, nil)
}

func must(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
