package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

func ask(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Minute}
}

// first returns a function that calls do for the first swap only.
func first(do func() mishap) func(string) mishap {
	done := false
	return func(string) mishap {
		if done {
			return nothing
		}
		done = true
		return do()
	}
}

func mustAcquire(t *testing.T, s *base.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// The next attempt sees the change that came in between, and reads the clock again.
func TestConflictIsDecidedAgain(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	b.mishaps = first(func() mishap {
		r, _, _, err := model.Acquire(model.Record{Resource: "r"}, b.now, ask("r", "quicker"))
		if err != nil {
			t.Error(err)
		}
		b.records["r"] = cas.Entry{Entry: base.Entry{Record: r}, Version: 99}
		b.now += 5_000_000
		return nothing
	})
	_, err := s.Acquire(t.Context(), ask("r", "a"))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Holders[0].LockID != "quicker" || held.RetryAfter != 55*time.Second {
		t.Errorf("got %v, want the other hold with 55 s left", err)
	}
}

// A change that is not urgent and loses every race fails in the end, with an unknown outcome:
// not held, not lost. A renewal retries until its ctx ends. A record that other callers
// change all the time delays no other record.
func TestEndlessConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		s := cas.New(b)
		ref := mustAcquire(t, s, ask("r", "a"))
		other := mustAcquire(t, s, ask("other", "a"))
		b.mishaps = func(resource string) mishap {
			if resource == "r" || resource == "new" {
				return conflict
			}
			return nothing
		}
		_, err := s.Acquire(t.Context(), ask("new", "a"))
		unknown(t, "acquire", err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.loads = 0
		rs, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: other, TTL: time.Hour}})
		if err != nil || rs[1].Err != nil || rs[1].Left != time.Hour {
			t.Errorf("renewals %v, error %v; want the second done", rs, err)
		}
		unknown(t, "renewal", rs[0].Err)
		if !errors.Is(rs[0].Err, context.DeadlineExceeded) || b.loads < 1000 {
			t.Errorf("the renewal was given up after %d tries: %v", b.loads, rs[0].Err)
		}
	})
}

// A renewal succeeds in the end, even if other changes came first many times.
func TestRenewalsDoNotGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		s := cas.New(b)
		ref := mustAcquire(t, s, ask("r", "a"))
		lost := 0
		b.mishaps = func(string) mishap {
			if lost++; lost < 3000 {
				return conflict
			}
			return nothing
		}
		rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
		if err != nil || rs[0].Err != nil || rs[0].Left != time.Hour {
			t.Errorf("renewal %+v, error %v", rs, err)
		}
	})
}

// The changes of one process do not race each other: each waits for its turn, renewals first.
func TestRenewalsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		s := cas.New(slow{b})
		ref := mustAcquire(t, s, ask("r", "a"))
		b.trips = 0
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := s.Acquire(t.Context(), ask("r", fmt.Sprint(i))); !errors.Is(err, driver.ErrHeld) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
		if took := time.Since(start); err != nil || rs[0].Err != nil || took > 3*trip {
			t.Errorf("renewal %+v, error %v, after %v; want it second in the line", rs, err, took)
		}
		all.Wait()
	})
}

// trip is the time that a slow backend takes for each call.
const trip = 10 * time.Millisecond

type slow struct{ *backend }

func (s slow) Load(ctx context.Context, resource string) (cas.Entry, error) {
	time.Sleep(trip)
	return s.backend.Load(ctx, resource)
}

func (s slow) Swap(ctx context.Context, c cas.Change) (bool, error) {
	time.Sleep(trip)
	return s.backend.Swap(ctx, c)
}

// A repeat is confirmed by a swap: the first attempt may have had no answer because no copy
// had its write.
func TestRepeatIsWritten(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	q := ask("r", "a")
	first := mustAcquire(t, s, q)
	version := b.records["r"].Version
	if again := mustAcquire(t, s, q); again != first || b.records["r"].Version == version {
		t.Errorf("the repeat says %+v, after %+v; written: %v", again, first, b.records["r"].Version != version)
	}
	b.mishaps = func(string) mishap { return failsBefore }
	if _, err := s.Acquire(t.Context(), q); !errors.Is(err, errWire) {
		t.Errorf("a repeat that could not be confirmed: %v", err)
	}
}

func unknown(t *testing.T, what string, err error) {
	t.Helper()
	for _, named := range []error{nil, driver.ErrHeld, driver.ErrLost, driver.ErrUnsupported, driver.ErrDamaged} {
		if errors.Is(err, named) {
			t.Errorf("%s: error %v; want one that says nothing about the outcome", what, err)
		}
	}
}

// A swap without an answer may have been made: it is not decided again, and the caller's
// repeat finds out.
func TestSwapWithoutAnswer(t *testing.T) {
	for name, fails := range map[string]mishap{"before": failsBefore, "after": failsAfter} {
		t.Run(name, func(t *testing.T) {
			b := newBackend()
			s := cas.New(b)
			q := ask("r", "a")
			b.mishaps = first(func() mishap { return fails })
			if _, err := s.Acquire(t.Context(), q); !errors.Is(err, errWire) || b.loads != 1 {
				t.Errorf("error %v after %d loads, want the backend's after 1", err, b.loads)
			}
			ref := mustAcquire(t, s, q)
			if len(b.records["r"].Record.Holds) != 1 {
				t.Errorf("record is %+v", b.records["r"])
			}
			b.mishaps = first(func() mishap { return fails })
			rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
			if err != nil || !errors.Is(rs[0].Err, errWire) {
				t.Errorf("renewal %v, error %v", rs, err)
			}
			b.mishaps = first(func() mishap { return fails })
			released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
			if err != nil || !errors.Is(released[0].Err, errWire) || released[0].Found {
				t.Errorf("release %v, error %v", released, err)
			}
		})
	}
}

// If a batch fails half-way, only the requests that were not decided are unknown.
func TestBatchWithoutAnswer(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	var qs []driver.RenewRequest
	for i := range 4 {
		qs = append(qs, driver.RenewRequest{HoldRef: mustAcquire(t, s, ask(fmt.Sprint(i), "a")), TTL: time.Hour})
	}
	qs[1].Token++
	b.mishaps = func(resource string) mishap {
		if resource == "2" {
			return failsAfter
		}
		return nothing
	}
	rs, err := s.Renew(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	if rs[0].Err != nil || !errors.Is(rs[1].Err, driver.ErrLost) || rs[3].Err != nil {
		t.Errorf("what was decided: %v", rs)
	}
	unknown(t, "renewal", rs[2].Err)
}

// A damaged record does not affect the other records of its batch.
func TestBatchWithDamage(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	var qs []driver.ReleaseRequest
	for _, r := range []string{"1", "2", "3"} {
		qs = append(qs, driver.ReleaseRequest{HoldRef: mustAcquire(t, s, ask(r, "a"))})
	}
	b.damaged["2"] = true
	rs, err := s.Release(t.Context(), qs)
	if err != nil || !rs[0].Found || !rs[2].Found || rs[1].Found {
		t.Errorf("got %v, error %v; want the first and the last found", rs, err)
	}
	if !errors.Is(rs[1].Err, driver.ErrDamaged) {
		t.Errorf("the damaged one: %v", rs[1].Err)
	}
}

// All requests of a batch for one record take two round trips.
func TestBatchTakesTwoTrips(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	var qs []driver.RenewRequest
	for i := range 100 {
		q := ask("r", fmt.Sprint(i))
		q.Mode = driver.Shared
		qs = append(qs, driver.RenewRequest{HoldRef: mustAcquire(t, s, q), TTL: time.Hour})
	}
	b.trips = 0
	rs, err := s.Renew(t.Context(), qs)
	if err != nil || b.trips != 2 {
		t.Errorf("%d trips, error %v", b.trips, err)
	}
	for i, r := range rs {
		if r.Err != nil || r.Left != time.Hour {
			t.Fatalf("renewal %d: %+v", i, r)
		}
	}
}

func TestSharedNeedsTraits(t *testing.T) {
	b := newBackend()
	b.traits.Shared = false
	q := ask("r", "a")
	q.Mode = driver.Shared
	if _, err := cas.New(b).Acquire(t.Context(), q); !errors.Is(err, driver.ErrUnsupported) || b.trips != 0 {
		t.Errorf("error %v after %d trips", err, b.trips)
	}
}

// Only changes after which another attempt may succeed wake watchers.
func TestWakes(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	ref := mustAcquire(t, s, ask("r", "a"))
	if _, err := s.Acquire(t.Context(), ask("r", "b")); !errors.Is(err, driver.ErrHeld) {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil || len(b.woken) != 0 {
		t.Errorf("woken: %q, error %v; want none", b.woken, err)
	}
	other := mustAcquire(t, s, ask("other", "a"))
	for _, qs := range [][]driver.ReleaseRequest{{{HoldRef: ref}}, {{HoldRef: ref}, {HoldRef: other}}} {
		if _, err := s.Release(t.Context(), qs); err != nil {
			t.Fatal(err)
		}
	}
	mustAcquire(t, s, ask("expired", "a"))
	b.now += 120_000_000
	if _, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"r", "other", "expired"}; !slices.Equal(b.woken, want) {
		t.Errorf("woken: %q, want %q", b.woken, want)
	}
}

// A sweep counts what it removed, decides again about records that have changed in between,
// and works in chunks.
func TestSweepCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		s := cas.New(b)
		for i := range 1200 {
			mustAcquire(t, s, ask(fmt.Sprintf("%04d", i), "a"))
		}
		b.now += 120_000_000
		mustAcquire(t, s, ask("live", "a"))
		conflicts := 0
		b.mishaps = func(resource string) mishap {
			if resource == "0007" && conflicts < 3 {
				conflicts++
				return conflict
			}
			return nothing
		}
		if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil || got != (driver.SweepResult{Holds: 1200}) {
			t.Errorf("swept %+v, error %v; want 1200 holds", got, err)
		}
		b.now++
		got, err := s.Sweep(t.Context(), driver.SweepRequest{Most: 250})
		if err != nil || got != (driver.SweepResult{Records: 250, More: true}) {
			t.Errorf("swept %+v, error %v; want 250 records, and more", got, err)
		}
		if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil || got != (driver.SweepResult{Records: 950}) {
			t.Errorf("swept %+v, error %v; want the other 950 records", got, err)
		}
		mustAcquire(t, s, ask("0001", "a"))
		b.now += 120_000_000
		b.mishaps = func(string) mishap { return failsAfter }
		if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); !errors.Is(err, errWire) || got != (driver.SweepResult{}) {
			t.Errorf("swept %+v, error %v; want the backend's error", got, err)
		}
	})
}

// A sweep reports a damaged record, and sweeps the records before it.
func TestSweepMeetsDamage(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	for _, r := range []string{"1", "2", "3"} {
		mustAcquire(t, s, ask(r, "a"))
	}
	b.now += 120_000_000
	b.damaged["2"] = true
	if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); !errors.Is(err, driver.ErrDamaged) || got.Holds != 1 {
		t.Errorf("swept %+v, error %v; want 1 hold and ErrDamaged", got, err)
	}
}

func TestOptionalPowers(t *testing.T) {
	s := cas.New(newBackend())
	if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("watch: %v", err)
	}
	if err := s.Init(t.Context()); err != nil {
		t.Errorf("init: %v", err)
	}
	powers := &powerful{backend: newBackend()}
	s = cas.New(powers)
	if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, errWire) {
		t.Errorf("watch: %v", err)
	}
	if err := s.Init(t.Context()); !errors.Is(err, errWire) {
		t.Errorf("init: %v", err)
	}
}

// powerful implements the optional methods, with errors of its own.
type powerful struct{ *backend }

func (*powerful) Watch(context.Context, string) (<-chan struct{}, error) { return nil, errWire }
func (*powerful) Init(context.Context) error                             { return errWire }
