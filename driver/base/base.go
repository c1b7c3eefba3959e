// Package base makes a driver.Store of a backend with one operation: update these resources
// with this decision. Package model makes the decisions, so the author of a store writes only
// the code that keeps records. Package memlock is an example.
//
// A store that has a lock of its own (a mutex, a transaction that locks its rows) implements
// Backend. It calls the decision under that lock, once for each record, even if a batch has
// many requests for it. For a store that can only compare and swap, package cas makes a
// Backend.
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
// A Backend may also implement driver.Watcher and driver.Initializer: the Store then uses
// these methods.
type Backend interface {
	// Update calls the Decide of each update with the record of its resource and the store's
	// clock, and makes the resulting change. No other change of the record comes in between.
	// No resource occurs twice. The updates are independent: they need not be made together,
	// nor in order.
	//
	// The outcome of each update is in its Err. If possible, a record that is damaged or
	// cannot be reached does not affect the others. An error of the whole call, such as a
	// failed commit, makes all outcomes unknown.
	//
	// Urgent updates are renewals: a lock is lost if they come too late. They go before all
	// others, at least among the callers of this process, and continue until ctx ends. If ctx
	// has ended before the call, nothing changes. If ctx ends later, changes that have begun
	// are not undone.
	Update(ctx context.Context, us []Update, urgent bool) error

	// Scan returns an iterator over the records that have holds or places: the record of the
	// resource, or all records if the name is empty. A record that exists throughout is
	// yielded at least once. Scan keeps no lock while it yields: the body of the loop may
	// call Update and may take long. The iteration ends after the first error. A damaged
	// record hides no other: its error comes after all readable records.
	Scan(ctx context.Context, resource string) iter.Seq2[Entry, error]

	// Due returns an iterator over the resources that a sweep may have to change: resources
	// with a hold that no longer blocks, and resources without holds whose record has not
	// changed for idle; see model.Due. It may yield others, which cost an Update that changes
	// nothing. Its cost should depend on the number of due records, not on the number of all
	// records. Otherwise it is like Scan.
	Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error]

	// Traits returns the promises of the store.
	Traits() driver.Traits
	// Close frees the resources of the store, as driver.Store.Close does.
	Close() error
}

// Update is one change of a resource and its outcome.
type Update struct {
	Resource string
	// Decide returns the change of the record, or of the Missing record of a resource that
	// has none. The clock is read while the record can no longer change, or after the record
	// was read if a swap detects later changes.
	//
	// If it is not certain that its change was made, Decide may be called again, with the
	// present record: the last call counts. It does no I/O and keeps no part of the record.
	// It must not be called after Update has returned.
	Decide func(Entry) Change
	// Err is set by the Backend. It is nil if the last decision was made. An error that wraps
	// driver.ErrDamaged means that the record cannot be understood and was not changed. After
	// any other error the change may have been made.
	Err error
}

// Action is the kind of a Change.
type Action uint8

// The values of Action.
const (
	// Keep leaves the record as it is. The decision may be made on any state that the record
	// had during the call.
	Keep Action = iota
	// Confirm changes nothing, but the answer depends on a change by an earlier call, which
	// may have failed half-way. In a store whose changes wait for copies of the data, Confirm
	// must wait too, by writing Record. In other stores it is Keep.
	Confirm
	// Put stores Record, new or changed.
	Put
	// Delete removes the record. Record is the deleted record, for its Floor.
	Delete
)

// Change is the result of a decision.
type Change struct {
	Action Action
	Record model.Record
	// Wake says that the watchers of the resource get a signal once the change is visible.
	Wake bool
	// Courtesy says that the change only gives a waiter its place in the queue. It need not
	// survive a loss of power, nor wait for copies of the data, and must not delay the answer
	// for long: after an error the answer is the same, without the place.
	Courtesy bool
}

// Entry is a record as it was read.
type Entry struct {
	Record model.Record
	// Now is the store's clock, not read before the record.
	Now model.Time
	// Missing says that there is no record: see the function Missing.
	Missing bool
}

// Missing returns the entry of a resource without a record. floor is the highest
// model.Record.Floor of the records that the store ever deleted, either of all resources or
// of this one. A record that is made of the entry has a Token and a Touched above floor, so
// their values never repeat, even if the clock was set back. A store that compares and swaps
// can also use them to refuse a record that was prepared before another record was made and
// deleted.
func Missing(resource string, floor uint64, now model.Time) Entry {
	return Entry{
		Record:  model.Record{Resource: resource, Token: floor, Touched: model.Time(floor)},
		Now:     now,
		Missing: true,
	}
}

// LogValue implements slog.LogValuer. It returns the change without hold IDs.
func (c Change) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// LogValue implements slog.LogValuer. It returns the entry without hold IDs.
func (e Entry) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", e)) }
