package base_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/memlock"
)

var errDisk = errors.New("disk failed")

// failing calls the decisions of updates and then fails to make them.
type failing struct {
	base.Backend
	shared bool
	record base.Entry
	missed error // the error of the update; nil: the call fails
}

func (f *failing) Update(_ context.Context, us []base.Update, _ bool) error {
	for i := range us {
		if us[i].Decide(f.record).Action != base.Keep {
			if us[i].Err = f.missed; f.missed == nil {
				return errDisk
			}
		}
	}
	return nil
}

func (f *failing) Traits() driver.Traits { return driver.Traits{Shared: f.shared} }

func ask(lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: "r", LockID: lockID, HoldID: driver.NewHoldID(), TTL: driver.Forever}
}

// heldForLong returns a record with a hold, at a time when a waiter gets a place.
func heldForLong(t *testing.T) base.Entry {
	t.Helper()
	f := &failing{record: base.Missing("r", 0, 1_900_000_000_000_000)}
	made := &putting{failing: f}
	if _, err := base.New(made).Acquire(t.Context(), ask("holder")); err != nil {
		t.Fatal(err)
	}
	made.record.Now += 10_000_000
	return made.record
}

// putting is a backend that does not fail.
type putting struct{ *failing }

func (p *putting) Update(_ context.Context, us []base.Update, _ bool) error {
	c := us[0].Decide(p.record)
	p.record = base.Entry{Record: c.Record, Now: p.record.Now}
	return nil
}

// The answer is the same refusal even if the place could not be written.
func TestPlaceChangesNoAnswer(t *testing.T) {
	for name, missed := range map[string]error{"call": nil, "update": errDisk} {
		t.Run(name, func(t *testing.T) {
			q := ask("b")
			q.Place = driver.NewPlaceID()
			_, err := base.New(&failing{record: heldForLong(t), missed: missed}).Acquire(t.Context(), q)
			var held *driver.HeldError
			if !errors.As(err, &held) || held.Holders[0].LockID != "holder" || held.Position != driver.NoPlace || held.Waiters != 0 {
				t.Errorf("error %#v, want the refusal without a place, and nobody waits", err)
			}
		})
	}
}

// The outcome of a change that was decided but not made is unknown: it is neither granted nor
// lost nor released.
func TestUnknown(t *testing.T) {
	record := heldForLong(t)
	ref := driver.HoldRef{Resource: "r", LockID: "holder", HoldID: record.Record.Holds[0].HoldID, Token: record.Record.Token}
	for name, missed := range map[string]error{"call": nil, "update": errDisk} {
		t.Run(name, func(t *testing.T) {
			s := base.New(&failing{record: record, missed: missed})
			repeat := ask("holder")
			repeat.HoldID = ref.HoldID
			if g, err := s.Acquire(t.Context(), repeat); !errors.Is(err, errDisk) || g != (driver.Grant{}) {
				t.Errorf("a repeat that was not confirmed: %+v, %v", g, err)
			}
			renewals := []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: ref, TTL: time.Hour}}
			renewals[1].Resource = "other"
			for n := 1; n <= 2; n++ {
				rs, err := s.Renew(t.Context(), renewals[:n])
				if err != nil || !errors.Is(rs[0].Err, errDisk) || rs[0].Left != driver.Unknown {
					t.Errorf("renewal %+v, error %v", rs, err)
				}
			}
			released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
			if err != nil || !errors.Is(released[0].Err, errDisk) || released[0].Found {
				t.Errorf("release %+v, error %v", released, err)
			}
		})
	}
}

func TestSharedNeedsTraits(t *testing.T) {
	q := ask("a")
	q.Mode = driver.Shared
	if _, err := base.New(&failing{}).Acquire(t.Context(), q); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

func TestOptionalPowers(t *testing.T) {
	s := base.New(&failing{})
	if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("watch: %v", err)
	}
	if err := s.Init(t.Context()); err != nil {
		t.Errorf("init: %v", err)
	}
}

// The cost of a sweep depends on the due records: a million others cost nothing.
func BenchmarkSweepOfNothing(b *testing.B) {
	s := memlock.New(nil)
	for range 1_000_000 {
		q := driver.AcquireRequest{Resource: driver.NewHoldID().String(), LockID: "a", HoldID: driver.NewHoldID(), TTL: time.Hour}
		g, err := s.Acquire(b.Context(), q)
		if err == nil {
			_, err = s.Release(b.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{
				Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token,
			}}})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if got, err := s.Sweep(b.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || got != (driver.SweepResult{}) {
			b.Fatal(got, err)
		}
	}
}
