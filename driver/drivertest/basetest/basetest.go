// Package basetest checks whether a base.Backend keeps its contract: nothing comes between
// what a decision saw and what it changed, and no number repeats. Package drivertest checks
// the store on the backend.
package basetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Run checks the backend that open makes, with a new backend for each subtest, which Run
// closes. Its clock must move by itself. The subtests run in parallel.
func Run(t *testing.T, open func(t *testing.T) base.Backend) {
	for _, topic := range [][]subtest{updating, looking} {
		for _, s := range topic {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				b := &bench{Backend: open(t), t: t}
				t.Cleanup(func() {
					if err := b.Close(); err != nil {
						t.Errorf("closing the backend: %v", err)
					}
				})
				s.run(b)
			})
		}
	}
}

type subtest struct {
	name string
	run  func(b *bench)
}

// bench is a backend in one subtest. Its methods end the subtest if they fail.
type bench struct {
	base.Backend
	t *testing.T
}

// update makes one update and returns what its last decision saw.
func (b *bench) update(resource string, decide func(base.Entry) base.Change) (seen base.Entry) {
	b.t.Helper()
	us := []base.Update{{Resource: resource, Decide: func(e base.Entry) base.Change {
		seen = e
		return decide(e)
	}}}
	err := b.Update(b.t.Context(), us, false)
	if err == nil {
		err = us[0].Err
	}
	if err != nil {
		b.t.Fatalf("update of %q: %v", resource, err)
	}
	if seen.Record.Resource != resource || seen.Now <= 0 {
		b.t.Fatalf("the decision about %q got %+v", resource, seen)
	}
	return seen
}

// read returns the record of a resource as a decision sees it.
func (b *bench) read(resource string) base.Entry {
	b.t.Helper()
	return b.update(resource, func(base.Entry) base.Change { return base.Change{} })
}

// grant gives a lock ID a hold and returns the resulting record.
func (b *bench) grant(resource, lockID string) (made model.Record) {
	b.t.Helper()
	b.update(resource, func(e base.Entry) base.Change {
		made = b.granted(e, lockID, time.Hour)
		return base.Change{Action: base.Put, Record: made}
	})
	return made
}

// granted returns the record with one more hold.
func (b *bench) granted(e base.Entry, lockID string, ttl time.Duration) model.Record {
	b.t.Helper()
	r, _, changed, err := model.Acquire(e.Record, e.Now, driver.AcquireRequest{
		Resource: e.Record.Resource, LockID: lockID, HoldID: driver.NewHoldID(), Mode: driver.Shared, TTL: ttl,
		Details: driver.Details{Owner: "ann", Host: `h"1`, Comment: "$x"}, TakeoverDelay: time.Millisecond,
	})
	if err != nil || !changed {
		b.t.Fatalf("the model grants nothing: %v", err)
	}
	return r
}

// release drops all holds of a resource.
func (b *bench) release(resource string) (made model.Record) {
	b.t.Helper()
	b.update(resource, func(e base.Entry) base.Change {
		d := model.Edit(e.Record, e.Now)
		for _, h := range e.Record.Holds {
			d.Release(driver.ReleaseRequest{HoldRef: driver.HoldRef{LockID: h.LockID, HoldID: h.HoldID}})
		}
		made, _ = d.Record()
		return base.Change{Action: base.Put, Record: made, Wake: true}
	})
	return made
}

// drop deletes a record.
func (b *bench) drop(resource string) {
	b.t.Helper()
	b.update(resource, func(e base.Entry) base.Change {
		return base.Change{Action: base.Delete, Record: e.Record}
	})
}

// is fails unless the record is the wanted one.
func (b *bench) is(e base.Entry, want model.Record) {
	b.t.Helper()
	if e.Missing || !same(e.Record, want) {
		b.t.Errorf("the record is\n%+v, missing: %v; it should be\n%+v", e.Record, e.Missing, want)
	}
}

// same compares records; no holds and an empty list of holds are the same.
func same(got, want model.Record) bool {
	if len(got.Holds)+len(want.Holds) == 0 {
		got.Holds, want.Holds = nil, nil
	}
	return reflect.DeepEqual(got, want)
}
