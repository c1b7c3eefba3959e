// Package castest checks whether a cas.Backend keeps its contract: a swap never undoes what
// happened since its record was loaded. Package drivertest checks the store on the backend.
package castest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Run checks the backend that open makes, with a new backend for each subtest, which Run
// closes. Its clock must move by itself. The subtests run in parallel.
func Run(t *testing.T, open func(t *testing.T) cas.Backend) {
	for _, topic := range [][]subtest{swapping, looking} {
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
	cas.Backend
	t *testing.T
}

func (b *bench) load(resource string) cas.Entry {
	b.t.Helper()
	e, err := b.Load(b.t.Context(), resource)
	if err != nil {
		b.t.Fatalf("load of %q: %v", resource, err)
	}
	if e.Record.Resource != resource || e.Now <= 0 || e.Missing && len(e.Record.Holds) > 0 || !e.Missing && e.Version == 0 {
		b.t.Fatalf("Load of %q returned %+v", resource, e)
	}
	return e
}

// swap makes a change and reports whether it was made.
func (b *bench) swap(c cas.Change) bool {
	b.t.Helper()
	done, err := b.Swap(b.t.Context(), c)
	if err != nil {
		b.t.Fatalf("swap of %q: %v", c.New.Resource, err)
	}
	return done
}

// must makes a change that nothing prevents, and returns the resulting entry.
func (b *bench) must(c cas.Change) cas.Entry {
	b.t.Helper()
	if !b.swap(c) {
		b.t.Fatalf("swap of %q was refused although no other caller changed it", c.New.Resource)
	}
	return b.load(c.New.Resource)
}

// granted returns the change that grants a hold on a loaded entry.
func (b *bench) granted(e cas.Entry, lockID string) cas.Change {
	b.t.Helper()
	r, _, changed, err := model.Acquire(e.Record, e.Now, driver.AcquireRequest{
		Resource: e.Record.Resource, LockID: lockID, HoldID: driver.NewHoldID(), Mode: driver.Shared, TTL: time.Hour,
		Details: driver.Details{Owner: "ann", Host: `h"1`, Comment: "$x"}, TakeoverDelay: time.Second,
	})
	if err != nil || !changed {
		b.t.Fatalf("the model grants nothing: %v", err)
	}
	return cas.Change{Old: e.Version, Create: e.Missing, New: r}
}

// released returns the change that releases the first hold.
func released(e cas.Entry) cas.Change {
	h := e.Record.Holds[0]
	r, _, _ := model.Release(e.Record, e.Now, driver.ReleaseRequest{
		HoldRef: driver.HoldRef{Resource: e.Record.Resource, LockID: h.LockID, HoldID: h.HoldID, Token: h.Token},
	})
	return cas.Change{Old: e.Version, New: r, Wake: true}
}

// deleted returns the change that removes the record, made no earlier than a sweep may make
// it.
func (b *bench) deleted(e cas.Entry) cas.Change {
	b.t.Helper()
	b.clockPasses(e.Record.Resource, e.Record.Touched)
	return cas.Change{Old: e.Version, New: e.Record, Delete: true}
}

// clockPasses waits until a load reads a later time than t.
func (b *bench) clockPasses(resource string, t model.Time) {
	b.t.Helper()
	deadline := time.Now().Add(3 * time.Second)
	for b.load(resource).Now <= t {
		if time.Now().After(deadline) {
			b.t.Fatalf("the clock stands still for %q", resource)
		}
	}
}

// gone grants, releases and deletes, so that no record is left.
func (b *bench) gone(resource string) {
	b.t.Helper()
	e := b.must(b.granted(b.load(resource), "passing"))
	e = b.must(released(e))
	if e = b.must(b.deleted(e)); !e.Missing {
		b.t.Fatalf("the record of %q still exists after its deletion: %+v", resource, e)
	}
}

// same fails unless the record is unchanged.
func (b *bench) same(want cas.Entry) {
	b.t.Helper()
	got := b.load(want.Record.Resource)
	if got.Version != want.Version || got.Missing != want.Missing || fmt.Sprintf("%+v", got.Record) != fmt.Sprintf("%+v", want.Record) {
		b.t.Errorf("the record is now\n%+v, version %d; it was\n%+v, version %d", got.Record, got.Version, want.Record, want.Version)
	}
}
