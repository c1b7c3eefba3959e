package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

func ask(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Minute}
}

// first does something before the first swap, and nothing after.
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

func mustAcquire(t *testing.T, s *cas.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// A change that came in between is seen by the next try, on a clock read anew.
func TestConflictIsDecidedAnew(t *testing.T) {
	b := newBackend()
	s := cas.New(b)
	b.mishaps = first(func() mishap {
		r, _, _, err := model.Acquire(model.Record{Resource: "r"}, b.now, ask("r", "quicker"))
		if err != nil {
			t.Error(err)
		}
		b.records["r"] = cas.Entry{Record: r, Version: 99}
		b.now += 5_000_000
		return nothing
	})
	_, err := s.Acquire(t.Context(), ask("r", "a"))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Holders[0].LockID != "quicker" || held.RetryAfter != 55*time.Second {
		t.Errorf("got %v, want the other hold with 55 s left", err)
	}
}

// Whatever loses every race fails in the end, as unknown: not held, not lost.
func TestEndlessConflicts(t *testing.T) {
	b := newBackend()
	s := cas.New(batcher{b})
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
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: other, TTL: time.Hour}})
	if err != nil || rs[1].Err != nil || rs[1].Left != time.Hour {
		t.Errorf("renewals %v, error %v; want the second done", rs, err)
	}
	unknown(t, "renewal", rs[0].Err)
}

func unknown(t *testing.T, what string, err error) {
	t.Helper()
	for _, named := range []error{nil, driver.ErrHeld, driver.ErrLost, driver.ErrUnsupported, driver.ErrDamaged} {
		if errors.Is(err, named) {
			t.Errorf("%s: error %v; want one that says nothing about the outcome", what, err)
		}
	}
}

// A swap without an answer may have been made: it is not decided anew, and the
// caller's repeat finds out.
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

// A batch that fails half-way leaves unknown what it did not decide, and no more.
func TestBatchWithoutAnswer(t *testing.T) {
	for name, backends := range map[string]func(*backend) cas.Backend{
		"one by one": func(b *backend) cas.Backend { return b },
		"batches":    func(b *backend) cas.Backend { return batcher{b} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend()
			s := cas.New(backends(b))
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
			if !errors.Is(rs[1].Err, driver.ErrLost) {
				t.Errorf("what was lost before the swap: %v", rs[1].Err)
			}
			unknown(t, "renewal", rs[2].Err)
			for i, r := range rs {
				left := b.records[qs[i].Resource].Record.Holds[0].End - b.now
				if r.Err == nil && left != model.Time(time.Hour/time.Microsecond) {
					t.Errorf("%d is said to be renewed and has %d µs left", i, left)
				}
			}
		})
	}
}

// A damaged record costs the others of its batch nothing.
func TestBatchWithDamage(t *testing.T) {
	b := newBackend()
	s := cas.New(batcher{b})
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

// A batch takes two round trips, however many resources and requests it has.
func TestBatchTakesTwoTrips(t *testing.T) {
	b := newBackend()
	s := cas.New(batcher{b})
	var qs []driver.RenewRequest
	for i := range 100 {
		ref := mustAcquire(t, s, ask(fmt.Sprint(i), "a"))
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: time.Hour}, driver.RenewRequest{HoldRef: ref, TTL: time.Minute})
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

// Only what makes another try worth while wakes.
func TestWakes(t *testing.T) {
	b := newBackend()
	s := cas.New(batcher{b})
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

// A sweep counts what it removed, leaves what changed meanwhile, and goes on in
// chunks.
func TestSweepCounts(t *testing.T) {
	for name, backends := range map[string]func(*backend) cas.Backend{
		"one by one": func(b *backend) cas.Backend { return b },
		"batches":    func(b *backend) cas.Backend { return batcher{b} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend()
			s := cas.New(backends(b))
			for i := range 1200 {
				mustAcquire(t, s, ask(fmt.Sprintf("%04d", i), "a"))
			}
			b.now += 120_000_000
			mustAcquire(t, s, ask("live", "a"))
			b.mishaps = func(resource string) mishap {
				if resource == "0007" || resource == "0900" {
					return conflict
				}
				return nothing
			}
			if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil || got != (driver.SweepResult{Holds: 1198}) {
				t.Errorf("swept %+v, error %v; want 1198 holds", got, err)
			}
			b.mishaps = nil
			b.now++
			if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil || got != (driver.SweepResult{Holds: 2, Records: 1198}) {
				t.Errorf("swept %+v, error %v; want 2 holds and 1198 records", got, err)
			}
			b.mishaps = func(string) mishap { return failsAfter }
			b.now++
			if got, err := s.Sweep(t.Context(), driver.SweepRequest{}); !errors.Is(err, errWire) || got != (driver.SweepResult{}) {
				t.Errorf("swept %+v, error %v; want the backend's error", got, err)
			}
		})
	}
}

// A damaged record is reported by a sweep, and what came before it is done.
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

// powerful fails in its own way at what a backend need not be able to do.
type powerful struct{ *backend }

func (*powerful) Watch(context.Context, string) (<-chan struct{}, error) { return nil, errWire }
func (*powerful) Init(context.Context) error                             { return errWire }
