package base_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/memlock"
)

var errDisk = errors.New("disk failed")

// failing has updates decided, and then fails to make what they decided.
type failing struct {
	base.Backend
	shared bool
	record base.Entry
	missed error // of the update itself, not of the call
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

// records keeps some, of which one may be damaged.
type records struct {
	failing
	kept    map[string]model.Record
	now     model.Time
	damaged string
	updates int
}

func newRecords() *records {
	return &records{failing: failing{shared: true}, kept: make(map[string]model.Record), now: 1_900_000_000_000_000}
}

func (r *records) entry(resource string) base.Entry {
	record, ok := r.kept[resource]
	if !ok {
		return base.Missing(resource, 0, r.now)
	}
	return base.Entry{Record: record, Now: r.now}
}

func (r *records) Update(_ context.Context, us []base.Update, _ bool) error {
	r.updates++
	for i, u := range us {
		if u.Resource == r.damaged {
			us[i].Err = driver.ErrDamaged
		} else if c := u.Decide(r.entry(u.Resource)); c.Action == base.Put {
			r.kept[u.Resource] = c.Record
		}
	}
	return nil
}

func (r *records) Due(context.Context, time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name := range r.kept {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (r *records) hold(t *testing.T, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := base.New(r).Acquire(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// heldForLong returns a record with a hold on which a note of the waiter is due.
func heldForLong(t *testing.T) base.Entry {
	t.Helper()
	r := newRecords()
	r.hold(t, ask("holder"))
	r.now += 10_000_000
	return r.entry("r")
}

// A damaged record does not affect the others of a batch or of a sweep, and all that a batch
// asks of one record is one update.
func TestBatchWithDamage(t *testing.T) {
	r := newRecords()
	var releases []driver.ReleaseRequest
	for _, resource := range []string{"1", "2", "2", "3", "4"} {
		q := ask(driver.NewHoldID().String())
		q.Resource, q.Mode, q.TTL = resource, driver.Shared, time.Second
		releases = append(releases, driver.ReleaseRequest{HoldRef: r.hold(t, q)})
	}
	r.damaged, r.updates = "2", 0
	got, err := base.New(r).Release(t.Context(), releases[:4])
	if err != nil || r.updates != 1 || !got[0].Found || !got[3].Found {
		t.Errorf("released %+v by %d updates, error %v", got, r.updates, err)
	}
	for _, damaged := range got[1:3] {
		if damaged.Found || !errors.Is(damaged.Err, driver.ErrDamaged) {
			t.Errorf("release of a damaged hold: %+v", damaged)
		}
	}
	r.now += 2_000_000
	swept, err := base.New(r).Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
	if !errors.Is(err, driver.ErrDamaged) || swept != (driver.SweepResult{Holds: 1}) {
		t.Errorf("swept %+v, error %v; want the hold of 4 and ErrDamaged", swept, err)
	}
}

// A place is a courtesy: the answer is the refusal, whatever became of it.
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

// The outcome of a change that was decided but not made is unknown: it is neither granted
// nor lost nor released.
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

// The cost of a sweep depends on the records that are due: a million others cost nothing.
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
