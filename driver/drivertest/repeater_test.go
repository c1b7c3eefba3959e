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

// upTo disturbs the first n calls of op.
func upTo(n int, op drivertest.Op, f drivertest.Fault) func(drivertest.Call) drivertest.Fault {
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op == op && c.N <= n {
			return f
		}
		return drivertest.Fault{}
	}
}

func TestRepeaterRepeatsWhatIsUnknown(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"request lost": {LoseRequest: true}, "reply lost": {LoseReply: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := drivertest.NewFaultStore(memlock.New(nil), upTo(3, drivertest.Acquire, fault))
			defer f.Close()
			store := drivertest.NewRepeater(f)
			q := request("r", "a")
			first, err := store.Acquire(t.Context(), q)
			if err != nil || f.Calls(drivertest.Acquire) != 4 {
				t.Fatalf("error %v after %d calls, want none after 4", err, f.Calls(drivertest.Acquire))
			}
			if again, err := store.Acquire(t.Context(), q); err != nil || again.Token != first.Token {
				t.Errorf("repeat was granted %+v, error %v; want token %d", again, err, first.Token)
			}
		})
	}
}

func TestRepeaterTakesNamedErrors(t *testing.T) {
	f := drivertest.NewFaultStore(memlock.New(nil), func(drivertest.Call) drivertest.Fault { return drivertest.Fault{} })
	defer f.Close()
	store := drivertest.NewRepeater(f)
	if _, err := store.Acquire(t.Context(), request("r", "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Acquire(t.Context(), request("r", "b")); !errors.Is(err, driver.ErrHeld) || f.Calls(drivertest.Acquire) != 2 {
		t.Errorf("error %v after %d calls, want ErrHeld after 2", err, f.Calls(drivertest.Acquire))
	}
}

// Of a batch only that is repeated which has no outcome.
func TestRepeaterCompletesBatches(t *testing.T) {
	var sizes []int
	f := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
		if c.Op != drivertest.Renew {
			return drivertest.Fault{}
		}
		sizes = append(sizes, len(c.Refs))
		return drivertest.Fault{DropLast: len(c.Refs) / 2}
	})
	defer f.Close()
	store := drivertest.NewRepeater(f)
	var qs []driver.RenewRequest
	for _, r := range []string{"1", "2", "3", "4"} {
		q := request(r, "a")
		if _, err := store.Acquire(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		qs = append(qs, driver.RenewRequest{HoldRef: release(q)[0].HoldRef, TTL: time.Hour})
	}
	qs[3].LockID = "nobody"
	rs, err := store.Renew(t.Context(), qs)
	if err != nil || len(rs) != 4 || len(sizes) != 3 || sizes[1] != 2 || sizes[2] != 1 {
		t.Fatalf("%d results, error %v, batches of %v; want 4 results and batches of 4, 2, 1", len(rs), err, sizes)
	}
	for i, r := range rs {
		if lost := errors.Is(r.Err, driver.ErrLost); lost != (i == 3) || !lost && r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}

// What names no hold ID is sent once, and what nobody waits for not again.
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

// A list starts again after an error, so it yields everything in the end.
func TestRepeaterCompletesLists(t *testing.T) {
	f := drivertest.NewFaultStore(memlock.New(nil), upTo(2, drivertest.List, drivertest.Fault{LoseReply: true}))
	defer f.Close()
	store := drivertest.NewRepeater(f)
	for _, r := range []string{"1", "2", "3"} {
		if _, err := store.Acquire(t.Context(), request(r, "a")); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for s, err := range store.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[s.Resource] = true
	}
	if len(seen) != 3 {
		t.Errorf("saw %v, want all three", seen)
	}
}

// What a batch does not answer, or its call as a whole, is recorded as unknown.
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
			t.Error("listed a hold that is not there")
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
