package drivertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// Requests without a hold ID are sent once, and requests are not repeated after ctx has
// ended.
func TestRepeaterStops(t *testing.T) {
	always := func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseReply: true} }
	f := drivertest.NewFaultStore(memlock.New(nil), always)
	defer f.Close()
	store := drivertest.NewRepeater(f)
	forced := []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: "r", LockID: "a"}}}
	if _, err := store.Release(t.Context(), forced); !errors.Is(err, drivertest.ErrFault) || f.Calls(drivertest.Release) != 1 {
		t.Errorf("error %v after %d calls, want ErrFault after 1", err, f.Calls(drivertest.Release))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := store.Acquire(ctx, request("r", "a")); err == nil {
		t.Error("an acquire without any answer was granted")
	}
	for _, err := range store.List(ctx, driver.Filter{}) {
		if err == nil {
			t.Error("a list without any answer yielded a hold")
		}
	}
}

// Missing results of a batch, and all results of a failed call, are recorded as unknown.
func TestRecorderKnowsWhatIsUnknown(t *testing.T) {
	f := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
		switch {
		case c.Op == drivertest.Renew:
			return drivertest.Fault{DropLast: 1}
		case c.Op == drivertest.List, c.Op == drivertest.Release:
			return drivertest.Fault{LoseReply: true}
		}
		return drivertest.Fault{}
	})
	defer f.Close()
	r := drivertest.NewRecorder(f, func() time.Duration { return 0 }, 0)
	q := request("r", "a")
	g, err := r.Acquire(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	ref := release(q)[0].HoldRef
	if _, err := r.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: ref, TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Acquire(t.Context(), request("r", "b")); !errors.Is(err, driver.ErrHeld) {
		t.Fatal(err)
	}
	for _, err := range r.List(t.Context(), driver.Filter{Resource: "none"}) {
		if err == nil {
			t.Error("listed a hold that does not exist")
		}
	}
	if _, err := r.Release(t.Context(), release(q)); err == nil {
		t.Error("the reply was not lost")
	}
	want := []drivertest.Outcome{drivertest.Done, drivertest.Done, drivertest.Unknown, drivertest.Held, drivertest.Unknown, drivertest.Unknown}
	events := r.Events()
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(events), len(want), events)
	}
	for i, e := range events {
		if e.Outcome != want[i] || e.Called.Order >= e.Answered.Order {
			t.Errorf("event %d is %+v, want it %s", i, e, want[i])
		}
	}
	if events[0].Ref.Token != g.Token || !errors.Is(events[5].Err, drivertest.ErrFault) {
		t.Errorf("recorded %+v and %+v", events[0], events[5])
	}
}
