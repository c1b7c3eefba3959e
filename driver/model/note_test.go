package model

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Which holds get a note when is tested by the stores that leave some, in package
// drivertest; here, to the microsecond, and where the clock has been set back.
func TestNotesAreSeldom(t *testing.T) {
	const (
		start = Time(1_900_000_000_000_000)
		after = Time(driver.NoteAfter / time.Microsecond)
		every = Time(driver.NoteEvery / time.Microsecond)
	)
	for name, c := range map[string]struct {
		waited, now Time
		noted       bool
	}{
		"young":                     {0, start + after - 1, false},
		"old enough":                {0, start + after, true},
		"noted lately":              {start + after, start + after + every - 1, false},
		"noted long ago":            {start + after, start + after + every, true},
		"clock behind its creation": {0, start - every, false},
		"clock behind its note":     {start + 2*every, start + every, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := Record{Resource: "r", Token: 1, Touched: start, Holds: []Hold{
				{LockID: "a", HoldID: driver.HoldID{1}, Token: 1, Created: start, Waited: c.waited, End: NoEnd},
			}}
			q := driver.AcquireRequest{Resource: "r", LockID: "b", HoldID: driver.HoldID{2}, TTL: time.Second, Waiting: true}
			got, _, changed, err := Acquire(r, c.now, q)
			if !errors.Is(err, driver.ErrHeld) || changed != c.noted || (got.Holds[0].Waited == c.now) != c.noted {
				t.Errorf("changed: %v, waited %d at %d, error %v; noted should be %v", changed, got.Holds[0].Waited, c.now, err, c.noted)
			}
			q.Waiting = false
			if _, _, changed, err := Acquire(r, c.now, q); changed || !errors.Is(err, driver.ErrHeld) {
				t.Errorf("without waiting: changed %v, error %v", changed, err)
			}
		})
	}
}

// A refusal that leaves no note costs no more for those who wait.
func TestRefusalAllocations(t *testing.T) {
	const now = Time(1_900_000_000_000_000)
	r := Record{Resource: "r", Token: 1, Holds: []Hold{
		{LockID: "a", HoldID: driver.HoldID{1}, Token: 1, Created: now - 60_000_000, Waited: now, End: NoEnd},
	}}
	q := driver.AcquireRequest{Resource: "r", LockID: "b", HoldID: driver.HoldID{2}, TTL: time.Second}
	refuse := func() float64 {
		return testing.AllocsPerRun(100, func() {
			if _, _, changed, err := Acquire(r, now, q); err == nil || changed {
				t.Fatalf("changed: %v, error %v", changed, err)
			}
		})
	}
	plain := refuse()
	q.Waiting = true
	if got := refuse(); got > plain {
		t.Errorf("%v allocations of one who waits, %v of another", got, plain)
	}
}
