// Package cas makes a driver.Store of anything that can compare and swap: load
// the record of a resource, let package model decide, put the new record in the
// place of the one that was loaded. It keeps no state and decides nothing.
package cas

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Version names one state of a record. A version never comes again for the same
// resource, not even after the record was deleted and made anew: else a swap that
// was prepared before would undo what happened since.
//
// 0 is the version of a record that does not exist, and does come again. A
// creation that was prepared before a record came and went must be refused all
// the same, or its token would not rise: a backend remembers the highest token and
// Touched that it ever deleted, and refuses to create at or below them.
type Version uint64

// Entry is a record as it was loaded.
type Entry struct {
	Record  model.Record
	Version Version
	// Now is the store's clock, read after the record was.
	Now model.Time
}

// Change is one compare-and-swap.
type Change struct {
	// Old is the version that must still be the record's.
	Old Version
	// New takes its place, under a version that the backend chooses. New.Touched
	// rises with every change and is never behind the clock at which it was
	// made, so it can be that version.
	New model.Record
	// Delete removes the record instead; New then only names the resource.
	Delete bool
	// Wake says that whoever watches the resource is to be signalled once the
	// change is visible.
	Wake bool
}

// Backend keeps records. All methods may be called concurrently.
type Backend interface {
	// Load returns the record of a resource, or for one without a record an
	// Entry that has just the resource's name, version 0 and the clock.
	Load(ctx context.Context, resource string) (Entry, error)
	// Swap makes one change and reports whether it did: false means that the
	// version was another, and nothing was changed. After an error the change
	// may have been made.
	Swap(ctx context.Context, c Change) (bool, error)
	// Scan yields the records that have holds, or with Query.Idle all of them.
	// A record that is there throughout is yielded at least once. It may be
	// followed by Swap while it goes on. It ends after the first error.
	Scan(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Traits are those of the store.
	Traits() driver.Traits
	// Close is that of the store.
	Close() error
}

// Query narrows a Scan.
type Query struct {
	Resource string // not empty: that one only
	Idle     bool   // also records without holds
}

// Batcher is a Backend that can do many resources in one round trip. The i-th
// result belongs to the i-th argument; no resource comes twice.
type Batcher interface {
	LoadAll(ctx context.Context, resources []string) ([]Entry, error)
	SwapAll(ctx context.Context, cs []Change) ([]bool, error)
}
