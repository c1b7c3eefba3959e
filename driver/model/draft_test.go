package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A draft of many requests gives the same record as the requests one by one, and leaves the
// original record unchanged.
func TestDraftIsOneByOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 2000 {
		now := Time(1_000_000)
		r := Record{Resource: "r", Token: 50, Touched: now - Time(rnd.IntN(3))}
		for i := range rnd.IntN(12) {
			r.Holds = append(r.Holds, Hold{
				// Two holds of one lock ID exist only in a record made by hand.
				LockID: fmt.Sprint(rnd.IntN(10)), HoldID: driver.HoldID{byte(i + 1)}, Token: uint64(i + 1),
				End: now + Time(rnd.IntN(3)-1), Released: rnd.IntN(5) == 0, TakeoverDelay: time.Second,
			})
		}
		given, want := deepCopy(r), deepCopy(r)
		d := Edit(r, now)
		anyChanged := false
		for range rnd.IntN(20) {
			ref := driver.HoldRef{Resource: "r", LockID: fmt.Sprint(rnd.IntN(10))}
			if len(r.Holds) > 0 && rnd.IntN(2) == 0 {
				ref = r.Holds[rnd.IntN(len(r.Holds))].status("r", now).Ref()
			}
			if rnd.IntN(2) == 0 {
				q := driver.RenewRequest{HoldRef: ref, TTL: time.Duration(rnd.IntN(3)) * time.Second}
				got := d.Renew(q)
				var one driver.RenewResult
				want, one = Renew(want, now, q)
				if got.Left != one.Left || errors.Is(got.Err, driver.ErrLost) != errors.Is(one.Err, driver.ErrLost) {
					t.Fatalf("round %d: %+v gave %+v in the draft, %+v alone", round, q, got, one)
				}
				anyChanged = anyChanged || one.Err == nil
				continue
			}
			q := driver.ReleaseRequest{HoldRef: ref, After: time.Duration(rnd.IntN(2)) * time.Microsecond}
			got, wake := d.Release(q)
			var one, oneWakes bool
			if want, one, oneWakes = Release(want, now, q); got != one || wake != oneWakes {
				t.Fatalf("round %d: %+v found it: %v, alone: %v", round, q, got, one)
			}
			anyChanged = anyChanged || one
		}
		got, changed := d.Record()
		if len(got.Holds)+len(want.Holds) == 0 {
			got.Holds, want.Holds = nil, nil
		}
		if changed != anyChanged || !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: changed %v, made\n%+v\none by one, changed %v,\n%+v", round, changed, got, anyChanged, want)
		}
		if !reflect.DeepEqual(r, given) {
			t.Fatalf("round %d: the original record became\n%+v", round, r)
		}
	}
}

// The cost of a batch depends on its size plus the number of holds, not on their product.
func TestDraftCostsByTheSum(t *testing.T) {
	const holders = 5000
	now := Time(1_000_000)
	r := Record{Resource: "r", Token: holders, Touched: now}
	qs := make([]driver.RenewRequest, holders)
	for i := range holders {
		h := Hold{LockID: fmt.Sprint(i), HoldID: driver.HoldID{1}, Token: uint64(i + 1), Mode: driver.Shared, End: now + 1}
		r.Holds = append(r.Holds, h)
		qs[i] = driver.RenewRequest{HoldRef: h.status("r", now).Ref(), TTL: time.Minute}
	}
	allocations := func(n int) float64 {
		return testing.AllocsPerRun(5, func() {
			d := Edit(r, now)
			for _, q := range qs[:n] {
				if got := d.Renew(q); got.Err != nil {
					t.Fatal(got.Err)
				}
			}
			if _, changed := d.Record(); !changed {
				t.Fatal("nothing was changed")
			}
		})
	}
	few, many := allocations(10), allocations(holders)
	if many > few+10 {
		t.Errorf("%v allocations for 10 renewals, %v for %d", few, many, holders)
	}
	// Without the index the time would grow with the product.
	d := Edit(r, now)
	for _, q := range qs[:100] {
		d.Renew(q)
	}
	if len(d.byLock) != holders {
		t.Errorf("after 100 renewals %d holds are in the index, want %d", len(d.byLock), holders)
	}
}
