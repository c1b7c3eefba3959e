// Package cas makes a base.Backend, and a driver.Store, of a store that can compare
// and swap and has no lock of its own. It loads the record of a resource, decides,
// replaces the loaded record by the new one, and retries if another change came first.
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

// Version names one state of a record. A version never repeats for the same resource, not
// even after the record was deleted and made again: otherwise a swap that was prepared
// before would undo all changes since.
//
// A resource without a record has the version 0, or that of the marker that its deletion
// left. 0 does repeat. So the backend must detect in another way that a creation was
// prepared before another record was made and deleted. A backend whose missing records
// have the version 0 remembers the highest model.Record.Floor that it ever deleted, and
// makes no creation that is not Above it.
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
	// Create says that there was no record.
	Create bool
	// New is the new record. The backend chooses its version. New.Touched rises with
	// every change and is never behind the clock of the change, so it can be the version.
	New model.Record
	// Delete removes the record instead. New is the record as it was: for its Floor.
	Delete bool
	// Wake says that the watchers of the resource get a signal once the change is
	// visible.
	Wake bool
}

// LogValue implements slog.LogValuer. It has the change without hold IDs.
func (c Change) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// Above reports whether a creation may be made. floor is the highest Floor of the deleted
// records. It must be read when the creation is made, not when it is prepared.
func (c Change) Above(floor uint64) bool {
	return c.New.Token > floor && c.New.Touched > model.Time(floor)
}

// Backend keeps records. All methods may be called concurrently. It may also be a
// driver.Watcher and a driver.Initializer: the store then uses its methods.
type Backend interface {
	// Load returns the record of a resource. The clock may be of an earlier round
	// trip than the record only if nothing changed the record in between. An error
	// that wraps driver.ErrDamaged says that the record cannot be understood.
	Load(ctx context.Context, resource string) (Entry, error)
	// Swap makes one change and reports whether it did: false means that the record
	// has another version, and nothing was changed. After an error the change may
	// have been made; a failure to reach the data is an error, never false.
	Swap(ctx context.Context, c Change) (bool, error)
	// Scan yields the records that have holds, or with Query.Idle all records. It yields
	// a record that is there throughout at least once. Its caller may call Swap
	// meanwhile. It ends after the first error. A damaged record hides no other: its
	// error comes after all records that can be read.
	Scan(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Traits are those of the store.
	Traits() driver.Traits
	// Close is that of the store.
	Close() error
}

// Query narrows a Scan.
type Query struct {
	Resource string // if not empty, only the record of this resource
	Idle     bool   // also records without holds
}

// New makes a store of the backend.
func New(b Backend) *base.Store { return base.New(Update(b)) }
