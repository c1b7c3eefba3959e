// Package model is the state machine of a lock: pure functions on the record of one resource.
// It does no I/O and has no clock: each function gets the time.
//
// Stores on package base use its decisions. Stores whose server decides by a statement
// (Redis, PostgreSQL, MongoDB, Elasticsearch) use it for answers: Acquire makes the
// *driver.HeldError of a refusal from the record that the server returned, and Statuses makes
// the results of List. Tests compare the decisions of these stores with this package.
//
// Records are values: no function changes the holds of its record, so goroutines may share a
// record.
package model

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Time is a time of the store's clock, in microseconds since 1970.
type Time int64

// NoEnd is the end of a hold without an end.
const NoEnd Time = math.MaxInt64

// TimeOf returns t in microseconds.
func TimeOf(t time.Time) Time { return Time(t.UnixMicro()) }

// Std returns t as a time.Time, and the zero time for 0.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// plus returns t + d. It never exceeds NoEnd: the longest duration, 100 years, is 3e15 µs.
func (t Time) plus(d time.Duration) Time {
	if d == driver.Forever {
		return NoEnd
	}
	return t + Time(d/time.Microsecond)
}

// Until returns the time from now to t. It is 0 if t is not after now, and Forever if it
// exceeds a duration: other programs may write any end into a store.
func (t Time) Until(now Time) time.Duration {
	switch {
	case t == NoEnd, t-now > NoEnd/1000:
		return driver.Forever
	case t <= now:
		return 0
	}
	return time.Duration(t-now) * time.Microsecond
}

// Record is everything that the decisions about one resource depend on. A Record with only
// its Resource set is that of a resource that was never locked.
type Record struct {
	Resource string
	// Token is the last granted token.
	Token uint64
	// Touched is the time of the last change of the record. It rises with every change, so a
	// store may use it as the record's version.
	Touched Time
	Holds   []Hold
	// Places is the queue, in the order of arrival.
	Places []Place
}

// Hold is one acquisition.
type Hold struct {
	LockID        string
	HoldID        driver.HoldID
	Mode          driver.Mode
	Limit         int // of a shared hold; 0: none, or driver.LimitUnknown
	Token         uint64
	Details       driver.Details
	Created       Time
	Renewed       Time // 0: never
	End           Time
	TakeoverDelay time.Duration
	Released      bool // released with a delay
}

// live reports whether the hold has not reached its end.
func (h Hold) live(now Time) bool { return now < h.End }

// clear returns when the hold stops blocking.
func (h Hold) clear() Time {
	if h.Released || h.End == NoEnd {
		return h.End
	}
	return h.End.plus(h.TakeoverDelay)
}

func (h Hold) blocks(now Time) bool { return now < h.clear() }

// matches reports whether the hold matches the ref: see driver.HoldRef.
func (h Hold) matches(ref driver.HoldRef) bool {
	return h.LockID == ref.LockID &&
		(ref.HoldID.IsZero() || h.HoldID == ref.HoldID) &&
		(ref.Token == 0 || h.Token == ref.Token)
}

func (h Hold) status(resource string, now Time) driver.Status {
	s := driver.Status{
		Resource: resource, LockID: h.LockID, HoldID: h.HoldID,
		Mode: h.Mode, Limit: h.Limit, Token: h.Token, Details: h.Details,
		Created: h.Created.Std(), Renewed: h.Renewed.Std(),
		Left: h.End.Until(now), TakeoverDelay: h.TakeoverDelay, Released: h.Released,
	}
	if !h.HoldID.IsZero() { // the times of other programs may be of another clock
		s.Seen = now.Std()
	}
	return s
}

// Touch returns the record with a new version and otherwise unchanged. A store writes it to
// confirm a repeated acquire, if only a write shows that all copies have the hold.
func Touch(r Record, now Time) Record { return r.touched(now, r.Holds) }

// Floor returns the highest number that the record has used. A store remembers it when it
// deletes the record.
func (r Record) Floor() uint64 { return max(r.Token, uint64(max(r.Touched, 0))) }

// touched returns the record with other holds, changed now.
func (r Record) touched(now Time, holds []Hold) Record {
	r.Touched = max(r.Touched+1, now)
	r.Holds = holds
	return r
}

// Format implements fmt.Formatter. It writes the hold without the hold ID.
func (h Hold) Format(f fmt.State, verb rune) {
	type shown Hold // without methods
	h.HoldID = driver.HoldID{}
	fmt.Fprintf(f, fmt.FormatString(f, verb), shown(h))
}

// LogValue implements slog.LogValuer. It returns what Format writes.
func (h Hold) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", h)) }

// LogValue implements slog.LogValuer. It returns the record without hold IDs.
func (r Record) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", r)) }
