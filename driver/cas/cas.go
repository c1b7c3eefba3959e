// Package cas makes a base.Backend, and a driver.Store, of a store that can compare and swap
// but has no lock of its own. It loads the record of a resource, decides, replaces the loaded
// record by the new one, and retries if another change came first.
package cas

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Version identifies one state of a record. A version never repeats for the same resource,
// not even after the record was deleted and made again: otherwise a swap that was prepared
// earlier would undo all changes since.
//
// A resource without a record has the version 0, or the version of the marker that its
// deletion left. Because 0 repeats, the backend must detect otherwise that a creation was
// prepared before another record was made and deleted. A backend whose missing records have
// the version 0 remembers the highest model.Record.Floor that it ever deleted, and makes only
// creations for which Above is true.
type Version uint64

// Entry is a loaded record, or base.Missing for a resource without a record.
type Entry struct {
	base.Entry
	Version Version
}

// Change is one compare-and-swap.
type Change struct {
	// Old is the version that the record, or the resource, must still have.
	Old Version
	// Create says that there was no record.
	Create bool
	// New is the new record. The backend chooses its version. New.Touched rises with every
	// change and is never behind the clock of the change, so it can be the version.
	New model.Record
	// Delete removes the record. New is then the deleted record, for its Floor.
	Delete bool
	// Wake says that the watchers of the resource get a signal once the change is visible.
	Wake bool
}

// LogValue implements slog.LogValuer. It returns the change without hold IDs.
func (c Change) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// Above reports whether a creation may be made. floor is the highest Floor of the deleted
// records. It must be read when the creation is made, not when it is prepared.
func (c Change) Above(floor uint64) bool {
	return c.New.Token > floor && c.New.Touched > model.Time(floor)
}

// Backend keeps records. All methods may be called concurrently. A Backend may also implement
// driver.Watcher and driver.Initializer: the Store then uses these methods.
type Backend interface {
	// Load returns the record of a resource. The clock may be read in an earlier round trip
	// than the record only if nothing changed the record in between. An error that wraps
	// driver.ErrDamaged means that the record cannot be understood.
	Load(ctx context.Context, resource string) (Entry, error)
	// Swap makes one change and reports whether it has: false means that the record has
	// another version, and nothing was changed. After an error the change may have been made.
	// A failure to reach the data is an error, never false.
	Swap(ctx context.Context, c Change) (bool, error)
	// Scan returns an iterator over the records that have holds, or over all records if
	// Query.Idle is set. A record that exists throughout is yielded at least once. The body
	// of the loop may call Swap. The iteration ends after the first error. A damaged record
	// hides no other: its error comes after all readable records.
	Scan(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Traits returns the promises of the store.
	Traits() driver.Traits
	// Close frees the resources of the store, as driver.Store.Close does.
	Close() error
}

// Query selects the records of a Scan.
type Query struct {
	Resource string // unless empty, only the record of this resource
	Idle     bool   // also records without holds
}

// New returns a store on the backend.
func New(b Backend) *base.Store { return base.New(Update(b)) }
