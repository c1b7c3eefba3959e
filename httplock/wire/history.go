package wire

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// HistoryEvent is something that became of a hold.
type HistoryEvent struct {
	// Number is larger than that of each event before it at the same server.
	Number int64 `json:"number"`
	// At is when it was noted, by the clock of the server, and AgoMs how long ago. That of a
	// release through the server is when it was sent to the store; that of another end is when
	// the hold had ended at the latest, as far as is known.
	At    time.Time `json:"at"`
	AgoMs Millis    `json:"agoMs"`
	// WithinMs is how long before At it happened at most: 0 of a grant or a release through the
	// server, else the time since the hold was there, or was not there yet, by all that the server
	// knows; null if that is not known.
	WithinMs *Millis `json:"withinMs"`
	// Event is granted or seen at the beginning of a hold, and released, forced, gone, expired,
	// lapsed or lost at its end.
	Event    string `json:"event"`
	Resource string `json:"resource"`
	// Ref is RefOf the hold ID.
	Ref     string      `json:"ref,omitempty"`
	Token   uint64      `json:"token,omitzero"`
	Mode    driver.Mode `json:"mode"`
	Limit   *int        `json:"limit"` // as that of a hold
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	Comment string      `json:"comment"`
	// HeldMs is how long it was held by then, and RenewedAgoMs the time since its last renewal;
	// null if that is not known.
	HeldMs       *Millis `json:"heldMs"`
	RenewedAgoMs *Millis `json:"renewedAgoMs"`
	// Caller has released it by force, and said that as the Reason.
	Caller string `json:"caller"`
	Reason string `json:"reason"`
}

// Kept is how well a server keeps a history.
type Kept struct {
	Server string `json:"server"`
	// Since is when what is kept begins, by the clock of the server, and SinceAgoMs how long ago.
	Since      time.Time `json:"since"`
	SinceAgoMs Millis    `json:"sinceAgoMs"`
	// Dropped are the events that are missing since the server's start.
	Dropped uint64 `json:"dropped"`
	// FailingMs is for how long the file cannot be written, null if it can.
	FailingMs *Millis `json:"failingMs"`
	// PeriodMs is the time between two looks at the store, null if there was none: holds that
	// are shorter and did not pass through the server are not in the history.
	PeriodMs *Millis `json:"periodMs"`
	// Blind: looks fail, or do not show the whole store, so that what others do is not seen.
	Blind bool `json:"blind"`
	// Gaps are when the history did not see all, the newest first.
	Gaps []HistoryGap `json:"gaps"`
}

// HistoryGap is a time of which the history does not have all.
type HistoryGap struct {
	// From and To are its bounds, by the clock of the server; To is null while it lasts.
	From time.Time  `json:"from"`
	To   *time.Time `json:"to"`
	// LengthMs is how long it was, or is by now.
	LengthMs Millis `json:"lengthMs"`
	// Cause is down if the server was not there, and blind if looks failed.
	Cause string `json:"cause"`
}

// History is a part of a history in plain JSON, the newest events first.
type History struct {
	Events []HistoryEvent `json:"events"`
	// Truncated: there are more.
	Truncated bool `json:"truncated"`
	Kept      Kept `json:"kept"`
}

// MillisKnown returns nil for driver.Unknown.
func MillisKnown(d time.Duration) *Millis { return known(d, MillisOf) }
