// Package cas makes a base.Backend, and a driver.Store, of a store that can compare
// and swap and has no lock of its own. It loads the record of a resource, decides,
// puts the new record in the place of the one that it loaded, and retries if another
// change was faster.
package cas

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Version names one state of a record. A version never comes again for the same
// resource, not even after the record was deleted and made again: otherwise a swap
// that was prepared before would undo what happened since.
//
// A resource without a record has the version 0, or that of the marker that its
// deletion left. 0 does come again, so a creation that was prepared before a record
// came and went must be refused in another way. A backend whose missing records have
// the version 0 remembers the highest model.Record.Floor that it ever deleted, and
// makes no change that is not Above it.
type Version uint64

// Entry is a record as it was loaded: base.Missing for a resource that has none.
type Entry struct {
	base.Entry
	Version Version
}

// Change is one compare-and-swap.
type Change struct {
	// Old is the version that must still be the record's, or the resource's.
	Old Version
	// Create: there was no record.
	Create bool
	// New takes the place of what was there, under a version that the backend
	// chooses. New.Touched rises with every change and is never behind the clock at
	// which it was made, so it can be that version.
	New model.Record
	// Delete removes the record instead. New is the record as it was: for its Floor.
	Delete bool
	// Wake says that the watchers of the resource get a signal once the change is
	// visible.
	Wake bool
}

// Above reports whether a creation may be made where floor is the highest Floor of
// what was deleted, read when the creation is made, not when it was prepared.
func (c Change) Above(floor uint64) bool {
	return c.New.Token > floor && c.New.Touched > model.Time(floor)
}

// Backend keeps records. All methods may be called concurrently. It may also be a
// driver.Watcher and a driver.Initializer; the store is so then.
type Backend interface {
	// Load returns the record of a resource. The clock may be of an earlier round
	// trip than the record only if nothing changed the record in between. An error
	// that wraps driver.ErrDamaged says that the record cannot be understood.
	Load(ctx context.Context, resource string) (Entry, error)
	// Swap makes one change and reports whether it did: false means that the record
	// has another version, and nothing was changed. After an error the change may
	// have been made; a failure to reach the data is an error, never false.
	Swap(ctx context.Context, c Change) (bool, error)
	// Scan yields the records that have holds, or with Query.Idle all of them. A
	// record that is there throughout is yielded at least once. Its caller may call
	// Swap while it goes on. It ends after the first error. A damaged record hides no
	// other: its error comes when all that can be read was yielded.
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

// New makes a store of the backend.
func New(b Backend) *base.Store { return base.New(Update(b)) }
