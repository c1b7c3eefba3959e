package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// The stores that use these functions test their decisions with package drivertest. The tests
// here cover what is not visible in stores.

// deepCopy returns a record that shares nothing with r.
func deepCopy(r Record) Record {
	r.Holds, r.Places = slices.Clone(r.Holds), slices.Clone(r.Places)
	return r
}

// No function changes its record, Touched rises with every change, and an unchanged record is
// returned as it was.
func TestRecordsAreValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	now := Time(1_000_000)
	r := Record{Resource: "r"}
	for step := range 5000 {
		before, given := deepCopy(r), r
		var changed bool
		var what string
		ref := driver.HoldRef{Resource: "r", LockID: string("abc"[rnd.IntN(3)])}
		if len(r.Holds) > 0 && rnd.IntN(2) == 0 {
			ref = r.Holds[rnd.IntN(len(r.Holds))].status("r", now).Ref()
		}
		switch rnd.IntN(6) {
		case 0, 1:
			what = "acquire"
			q := driver.AcquireRequest{
				Resource: "r", LockID: string("abcdef"[rnd.IntN(6)]), HoldID: driver.HoldID{byte(rnd.IntN(5) + 1)},
				Mode: driver.Mode(rnd.IntN(2)), TTL: time.Duration(rnd.IntN(20)+1) * time.Millisecond,
				Place: driver.PlaceID{byte(rnd.IntN(4))}, Fair: rnd.IntN(2) == 0,
			}
			r, _, changed, _ = Acquire(given, now, q)
		case 2:
			what = "renew"
			var res driver.RenewResult
			r, res = Renew(given, now, driver.RenewRequest{HoldRef: ref, TTL: 10 * time.Millisecond})
			changed = res.Err == nil
		case 3:
			what = "release"
			q := driver.ReleaseRequest{HoldRef: ref, After: time.Duration(rnd.IntN(3)) * time.Millisecond, Place: driver.PlaceID{byte(rnd.IntN(4))}}
			r, _, _ = Release(given, now, q)
			changed = r.Touched != given.Touched
		case 4:
			what = "sweep"
			var dropped int
			r, dropped, _ = Sweep(given, now, 0)
			changed = dropped > 0
		case 5:
			now += Time(rnd.IntN(8000))
		}
		if !reflect.DeepEqual(given, before) {
			t.Fatalf("step %d: %s changed its argument from\n%+v to\n%+v", step, what, before, given)
		}
		if changed && (r.Touched <= before.Touched || r.Touched < now) {
			t.Fatalf("step %d: %s at %d moved Touched from %d to %d", step, what, now, before.Touched, r.Touched)
		}
		if !changed && !reflect.DeepEqual(r, before) {
			t.Fatalf("step %d: %s changed nothing, yet\n%+v became\n%+v", step, what, before, r)
		}
	}
}

// Tokens stay exact in every language: beyond 2^53 nothing is granted.
func TestTokensEnd(t *testing.T) {
	q := driver.AcquireRequest{Resource: "r", LockID: "a", HoldID: driver.HoldID{1}, TTL: time.Second}
	for name, c := range map[string]struct {
		last  uint64
		now   Time
		token uint64 // 0: none
	}{
		"first, clock at 1970":   {0, 0, 1},
		"clock before 1970":      {0, -5, 1},
		"clock":                  {5, 1000, 1000},
		"last, clock far behind": {5000, 1000, 5001},
		"the very last":          {driver.MaxToken - 1, 1000, driver.MaxToken},
		"no more":                {driver.MaxToken, 1000, 0},
		"clock past the end":     {5, driver.MaxToken + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, g, changed, err := Acquire(Record{Resource: "r", Token: c.last}, c.now, q)
			if c.token == 0 {
				if !errors.Is(err, driver.ErrDamaged) || changed || len(r.Holds) != 0 {
					t.Errorf("granted %+v, error %v; want ErrDamaged", g, err)
				}
				return
			}
			if err != nil || g.Token != c.token || r.Token != c.token {
				t.Errorf("granted %d, record has %d, error %v; want %d", g.Token, r.Token, err, c.token)
			}
		})
	}
}

// A record is deleted only when no later token can repeat its last one.
func TestSweepKeepsTokens(t *testing.T) {
	const idle = time.Second
	for name, c := range map[string]struct {
		touched, now Time
		token        uint64
		remove       bool
	}{
		"idle":                  {1_000_000, 2_000_000, 1_000_000, true},
		"not idle for so long":  {1_000_001, 2_000_000, 1_000_000, false},
		"token ahead":           {1_000_000, 2_000_000, 1_000_001, false},
		"clock before 1970":     {-5_000_000, -1, 0, false},
		"clock just after 1970": {0, 999_999, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := Record{Resource: "r", Touched: c.touched, Token: c.token}
			if _, _, remove := Sweep(r, c.now, idle); remove != c.remove {
				t.Errorf("remove: %v, want %v", remove, c.remove)
			}
			r.Holds = []Hold{{LockID: "a", End: c.now + 1}}
			if _, dropped, remove := Sweep(r, c.now, idle); remove || dropped != 0 {
				t.Errorf("with a live hold: dropped %d, remove %v", dropped, remove)
			}
			r.Holds = []Hold{{LockID: "a", End: c.now}}
			if _, dropped, remove := Sweep(r, c.now, idle); remove || dropped != 1 {
				t.Errorf("with an expired hold: dropped %d, remove %v; want it dropped and the record kept", dropped, remove)
			}
		})
	}
}

// Seen is shown only beside times of the store's own clock: programs without Holdfast, whose
// holds have no ID, may have written times of other clocks.
func TestSeen(t *testing.T) {
	const now, created = Time(5_000_000), Time(2_000_000)
	own := Hold{LockID: "a", HoldID: driver.NewHoldID(), Mode: driver.Shared, Created: created, End: NoEnd}
	other := Hold{LockID: "b", Mode: driver.Shared, Created: created, End: NoEnd}
	r := Record{Resource: "r", Holds: []Hold{own, other}, Places: []Place{{
		ID: driver.NewPlaceID(), LockID: "c", Fair: true, Since: created, Asked: created, Until: NoEnd,
	}}}
	refused := Refusal(r, now, driver.AcquireRequest{Resource: "r", LockID: "d"})
	for what, holds := range map[string][]driver.Status{"list": Statuses(r, now, driver.Filter{}), "refusal": refused.Holders} {
		if len(holds) != 2 || !holds[0].Seen.Equal(now.Std()) || holds[0].Age() != 3*time.Second {
			t.Errorf("%s: %+v", what, holds)
		} else if s := holds[1]; !s.Seen.IsZero() || s.Age() != driver.Unknown || !s.Created.Equal(created.Std()) {
			t.Errorf("%s: of another program: %+v, age %v", what, s, s.Age())
		}
	}
	for what, places := range map[string][]driver.Place{"list": Places(r, now, driver.Filter{}), "refusal": refused.Ahead} {
		if len(places) != 1 || !places[0].Seen.Equal(now.Std()) || places[0].Age() != 3*time.Second || places[0].AskedAgo() != 3*time.Second {
			t.Errorf("%s: %+v", what, places)
		}
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	if got, want := TimeOf(at).Std(), at.Truncate(time.Microsecond).UTC(); got != want {
		t.Errorf("%v came back as %v", at, got)
	}
	if got := Time(0).Std(); !got.IsZero() {
		t.Errorf("never is %v", got)
	}
	for _, c := range []struct {
		d    time.Duration
		want time.Duration
	}{{driver.Forever, driver.Forever}, {driver.MaxTTL, driver.MaxTTL}, {0, 0}, {time.Millisecond, time.Millisecond}} {
		now := TimeOf(at)
		if got := now.plus(c.d).Until(now); got != c.want {
			t.Errorf("%v from now is in %v", c.d, got)
		}
	}
	if got := TimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)).Until(TimeOf(at)); got != driver.Forever {
		t.Errorf("the year 9999 is in %v", got)
	}
	if got := fmt.Sprint(Time(5).Until(6)); got != "0s" {
		t.Errorf("a past time is in %s", got)
	}
}
