package wire

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// HistoryEvent is an event in the life of a hold.
type HistoryEvent struct {
	// Number is larger than the number of each earlier event at the same server.
	Number int64 `json:"number"`
	// At is the time of the event by the clock of the server, and AgoMs how long ago that
	// was. For a release through the server it is when the release was sent to the store.
	// For other ends it is the latest time at which the hold can have ended, as far as is
	// known.
	At    time.Time `json:"at"`
	AgoMs Millis    `json:"agoMs"`
	// WithinMs is how long before At the event can have happened at most: 0 for a grant
	// or a release through the server, else the time since the server last knew that the
	// hold was there, or that it was not there yet; null if that is unknown.
	WithinMs *Millis `json:"withinMs"`
	// Event is granted or seen at the beginning of a hold, and released, forced, gone,
	// expired, lapsed or lost at its end.
	Event    string `json:"event"`
	Resource string `json:"resource"`
	// Ref is RefOf the hold ID.
	Ref     string      `json:"ref,omitempty"`
	Token   uint64      `json:"token,omitzero"`
	Mode    driver.Mode `json:"mode"`
	Limit   *int        `json:"limit"` // as for a hold
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	Comment string      `json:"comment"`
	// HeldMs is how long the hold had been held by then, and RenewedAgoMs the time since
	// its last renewal; null if unknown.
	HeldMs       *Millis `json:"heldMs"`
	RenewedAgoMs *Millis `json:"renewedAgoMs"`
	// Caller has released the hold by force, and gave Reason.
	Caller string `json:"caller"`
	Reason string `json:"reason"`
}

// Kept describes how complete the history of a server is.
type Kept struct {
	Server string `json:"server"`
	// Since is the beginning of the kept history by the clock of the server, and
	// SinceAgoMs how long ago that was.
	Since      time.Time `json:"since"`
	SinceAgoMs Millis    `json:"sinceAgoMs"`
	// Dropped is the number of events missing since the server's start.
	Dropped uint64 `json:"dropped"`
	// FailingMs is how long the file could not be written, null if it can be written.
	FailingMs *Millis `json:"failingMs"`
	// PeriodMs is the time between two looks at the store, null if there was none. The
	// history lacks holds that are shorter and did not pass through the server.
	PeriodMs *Millis `json:"periodMs"`
	// Blind means that looks fail or do not show the whole store, so that changes by
	// others are missed.
	Blind bool `json:"blind"`
	// Gaps are periods of which the history is incomplete, the newest first.
	Gaps []HistoryGap `json:"gaps"`
}

// HistoryGap is a period of which the history is incomplete.
type HistoryGap struct {
	// From and To are its bounds by the clock of the server; To is null while the gap
	// lasts.
	From time.Time  `json:"from"`
	To   *time.Time `json:"to"`
	// LengthMs is the length of the gap, so far if it lasts.
	LengthMs Millis `json:"lengthMs"`
	// Cause is down if the server was not running, and blind if looks failed.
	Cause string `json:"cause"`
}

// History is a part of a history in plain JSON, the newest events first.
type History struct {
	Events []HistoryEvent `json:"events"`
	// Truncated means that there are more events.
	Truncated bool `json:"truncated"`
	Kept      Kept `json:"kept"`
}

// MillisKnown returns nil for driver.Unknown.
func MillisKnown(d time.Duration) *Millis { return known(d, MillisOf) }
