// Package base makes a driver.Store of a backend with one operation: update these
// resources by this decision. Package model decides. A new store needs only the code
// that keeps records, and no state machine.
//
// A store that has a lock of its own (a mutex, a transaction that locks its rows)
// implements Backend. It calls the decision under that lock, once for each record,
// even if a batch has many requests for it. Package cas makes a Backend of a store
// that can only compare and swap.
package base

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Backend keeps records. All methods may be called concurrently.
//
// It may also be a driver.Watcher and a driver.Initializer: the store then uses its
// methods.
type Backend interface {
	// Update calls the Decide of each update with the record of its resource and the
	// store's clock, and makes the change that the decision asks for. No other change
	// of the record comes between. No resource comes twice. The updates are independent
	// of one another: they need not be made together, nor in order.
	//
	// The outcome of each is in its Err. If possible, a record that is damaged or
	// cannot be reached does not affect the others. An error of the call as a whole,
	// such as that of a commit, makes all outcomes unknown.
	//
	// urgent updates are renewals: a lock is lost if they come too late. They go
	// before all others, among the callers of this process at least, and go on until
	// ctx ends. If ctx has ended before the call, nothing changes. If ctx ends later,
	// changes that have begun are not undone.
	Update(ctx context.Context, us []Update, urgent bool) error

	// Scan yields the records that have holds or places: that of the resource, or all if the name
	// is empty. It yields a record that is there throughout at least once. It keeps no
	// lock while it yields: its caller may call Update in the loop, and take any time. It
	// ends after the first error. A damaged record hides no other: its error comes after
	// all records that can be read.
	Scan(ctx context.Context, resource string) iter.Seq2[Entry, error]

	// Due yields the resources that a sweep may have to change: those with a hold
	// that no longer blocks, and those without holds whose record has not changed
	// for idle; see model.Due. It may yield others, at the price of an Update that
	// changes nothing. Its cost should depend on how many are due, not on how many
	// there are. Otherwise it is like Scan.
	Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error]

	// Traits are what the store promises.
	Traits() driver.Traits
	// Close frees what the store has open, as driver.Store's does.
	Close() error
}

// Update is one change of a resource, and its outcome.
type Update struct {
	Resource string
	// Decide returns the change of the record, or of the Missing one of a resource
	// that has none. The clock is read while the record can no longer change, or
	// after the record was read if a swap detects later changes.
	//
	// If it is not certain that its change was made, it may be called again, on the
	// record as it is then: the last call counts. It does no I/O and keeps neither the
	// record nor a part of it. It must not be called after Update has returned.
	Decide func(Entry) Change
	// Err is set by the Backend: nil if the last decision was made. An error that
	// wraps driver.ErrDamaged says that the record cannot be understood; it is left
	// as it is. After any other error the change may have been made.
	Err error
}

// Action is the kind of a Change.
type Action uint8

// The actions.
const (
	// Keep leaves the record as it is. Such a decision may be made on any state
	// that the record had during the call.
	Keep Action = iota
	// Confirm changes nothing: the answer is the change of an earlier call, which may
	// have failed half-way. In a store whose changes wait for copies of the data,
	// Confirm must wait too: by writing Record. In other stores it is Keep.
	Confirm
	// Put stores Record, made or changed.
	Put
	// Delete removes the record. Record is as it was, for its Floor.
	Delete
)

// Change is a decision.
type Change struct {
	Action Action
	Record model.Record
	// Wake says that the watchers of the resource get a signal once the change is
	// visible.
	Wake bool
	// Courtesy says that the change gives a waiter its place in the queue. It need not
	// survive a loss of power, nor wait for copies of the data, and must not delay the
	// answer for long: after an error the answer is the same, without the place.
	Courtesy bool
}

// Entry is a record as it was read.
type Entry struct {
	Record model.Record
	// Now is the store's clock, read not before the record.
	Now model.Time
	// Missing says that there is no record. See the function Missing.
	Missing bool
}

// Missing is the entry of a resource without a record. floor is the highest
// model.Record.Floor of the records that the store ever deleted, of all or of this
// resource's alone. A record that is made of the entry has a Token and a Touched above
// floor. So no value of them repeats, even if the clock was set back. And a store that
// compares and swaps can refuse a record that was prepared before another record was
// made and deleted.
func Missing(resource string, floor uint64, now model.Time) Entry {
	return Entry{
		Record:  model.Record{Resource: resource, Token: floor, Touched: model.Time(floor)},
		Now:     now,
		Missing: true,
	}
}

// LogValue implements slog.LogValuer. It has the change without hold IDs.
func (c Change) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// LogValue implements slog.LogValuer. It has the entry without hold IDs.
func (e Entry) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", e)) }
