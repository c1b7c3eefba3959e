package mongolock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
)

// about reports whether d is the time left of a hold with this TTL, granted just now.
func about(d, length time.Duration) bool { return d <= length && d > length-30*time.Minute }

func permit(lockID string, limit int) driver.AcquireRequest {
	return ask.Shared(ask.Request("r", lockID), limit)
}

// With OwnLimits, the limit of the request alone decides: the number of other holds
// counts, not their limits, and the hold itself has none.
func TestOwnLimits(t *testing.T) {
	coll := newCollection(t)
	s, own := newStore(t, coll), newStoreWith(t, coll, &mongolock.Options{OwnLimits: true})
	refused := func(limit int) {
		t.Helper()
		if e := ask.Refused(t, own, permit("late", limit)); e.LimitDiffers {
			t.Errorf("refused with limit %d, because others have another", limit)
		}
	}
	var refs []driver.HoldRef
	for i, limit := range []int{1, 2, 3, 0, 5} {
		if limit > 1 {
			refused(limit - 1)
		}
		refs = append(refs, ask.Granted(t, own, permit(fmt.Sprint("holder ", i), limit)))
	}
	for lockID, st := range holdsOf(t, s) {
		if st.Limit != driver.LimitUnknown {
			t.Errorf("%q is listed with limit %d, want it unknown", lockID, st.Limit)
		}
	}
	// These holds count for others, and have no limit that could differ.
	if e := ask.Refused(t, s, permit("late", 5)); e.LimitDiffers {
		t.Error("no limit is known, and the refusal says that one differs")
	}
	known := ask.Granted(t, s, permit("known", 6))
	q := permit("beside", 9)
	beside := ask.Granted(t, own, q)
	if again := ask.Granted(t, own, q); again != beside {
		t.Errorf("a repeat was granted %+v, want %+v", again, beside)
	}
	refused(7)
	if !ask.Refused(t, s, permit("late", 8)).LimitDiffers {
		t.Error("a known limit differs from that of the request, and the refusal does not say so")
	}
	// A renewal keeps the limit that others must match.
	renew(t, own, []driver.RenewRequest{{HoldRef: known, TTL: 2 * time.Hour}}, -1)
	if st := holdsOf(t, s)["known"]; st.Limit != 6 {
		t.Errorf("after a renewal, the limit is %d, want 6", st.Limit)
	}
	release(t, s, true, known)
	for _, ref := range refs[:4] {
		refused(2)
		release(t, s, true, ref)
	}
	refused(2)
	ask.Granted(t, own, permit("late", 3))
}

// A refusal says when there is room for the limit of the request.
func TestRetryAfterWithOwnLimits(t *testing.T) {
	coll := newCollection(t)
	s, own := newStore(t, coll), newStoreWith(t, coll, &mongolock.Options{OwnLimits: true})
	for i := range 3 {
		q := permit(fmt.Sprint("holder ", i), 3)
		q.TTL = time.Duration(i+1) * time.Hour
		ask.Granted(t, s, q)
	}
	for limit, wait := range map[int]time.Duration{3: time.Hour, 2: 2 * time.Hour, 1: 3 * time.Hour} {
		if e := ask.Refused(t, own, permit("late", limit)); e.LimitDiffers || !about(e.RetryAfter, wait) {
			t.Errorf("limit %d: retry after %v, limit differs: %v; want %v, false", limit, e.RetryAfter, e.LimitDiffers, wait)
		}
	}
	if e := ask.Refused(t, s, permit("late", 9)); !e.LimitDiffers || !about(e.RetryAfter, 3*time.Hour) {
		t.Errorf("another limit: retry after %v, limit differs: %v; want 3h, true", e.RetryAfter, e.LimitDiffers)
	}
}

// Places are treated like the future holds of their waiters.
func TestOwnLimitsInQueue(t *testing.T) {
	coll := newCollection(t)
	s, own := newStore(t, coll), newStoreWith(t, coll, &mongolock.Options{OwnLimits: true})
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	known, unknown := at(permit("known", 3), 1), at(permit("unknown", 2), 2)
	waits(t, s, known)
	for range 2 {
		if e := ask.Refused(t, own, unknown); e.Position != 1 || e.Waiters != 2 {
			t.Errorf("position %d of %d, want 1 of 2", e.Position, e.Waiters)
		}
	}
	for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: "r"}) {
		if want := []int{3, driver.LimitUnknown}[p.Position]; err != nil || p.Limit != want {
			t.Errorf("%q waits with limit %d, want %d; error %v", p.LockID, p.Limit, want, err)
		}
	}
	release(t, s, true, ref)
	_ = ask.Refused(t, s, permit("late", 9)) // its limit differs from that of the first
	if e := ask.Refused(t, own, permit("late", 2)); !e.OnlyAhead() || len(e.Ahead) != 2 {
		t.Errorf("%+v, want two ahead", e)
	}
	late := ask.Granted(t, own, permit("late", 3))
	ask.Granted(t, s, known)
	_ = ask.Refused(t, own, unknown)
	release(t, s, true, late)
	ask.Granted(t, own, unknown)
}

// A renewal moves the end backwards only with ExactRenewals.
func TestExactRenewals(t *testing.T) {
	coll := newCollection(t)
	clock := engines.NewMongoClock(t, coll.Database())
	s, exact := newStore(t, coll), newStoreWith(t, coll, &mongolock.Options{ExactRenewals: true})
	ask.Granted(t, s, permit("beside", 0))
	var refs []driver.HoldRef
	for _, q := range []driver.AcquireRequest{ask.Request("x", "a"), permit("a", 0)} {
		q.TTL = driver.Forever
		refs = append(refs, ask.Granted(t, s, q))
	}
	renewed := func(s driver.Store, ttl, want time.Duration, refs ...driver.HoldRef) {
		t.Helper()
		var qs []driver.RenewRequest
		for _, ref := range refs {
			qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: ttl})
		}
		rs, err := s.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil || r.Left != driver.Unknown && !about(r.Left, want) {
				t.Errorf("renewal of %q for %v: %v left, want %v; error %v", refs[i].Resource, ttl, r.Left, want, r.Err)
			}
			for st, err := range s.List(t.Context(), driver.Filter{Resource: refs[i].Resource, LockID: "a"}) {
				if err != nil || !about(st.Left, want) {
					t.Errorf("after a renewal for %v, %q is listed with %v left, want %v; error %v", ttl, st.Resource, st.Left, want, err)
				}
			}
		}
	}
	renewed(s, time.Hour, driver.Forever, refs...)
	renewed(exact, 2*time.Hour, 2*time.Hour, refs...)
	renewed(s, time.Hour, 2*time.Hour, refs...)
	renewed(exact, 4*time.Hour, 4*time.Hour, refs...)
	for _, ref := range refs {
		renewed(s, time.Hour, 4*time.Hour, ref)
		renewed(exact, 3*time.Hour, 3*time.Hour, ref)
	}
	renew(t, exact, []driver.RenewRequest{{HoldRef: refs[0], TTL: time.Second}}, -1)
	if err := clock.Pass(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	ask.Lost(t, exact, refs[0])
	ask.Granted(t, s, ask.Request("x", "b"))
}
