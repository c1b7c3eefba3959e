package wire

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// PastHold is what the history of a server knows of one hold.
type PastHold struct {
	// Number is larger than that of each hold which was noted before at the same server.
	Number   int64  `json:"number"`
	Resource string `json:"resource"`
	// Ref is RefOf the hold ID.
	Ref     string      `json:"ref"`
	Token   uint64      `json:"token,omitzero"`
	Mode    driver.Mode `json:"mode"`
	Limit   *int        `json:"limit"` // as for a hold
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	Comment string      `json:"comment"`
	Began   PastMoment  `json:"began"`
	// Ended is null, and How is empty, while no end is known. Else How is released, forced, lost
	// or unknown.
	Ended *PastMoment `json:"ended"`
	How   string      `json:"how"`
	// By has released the hold by force, and gave Reason.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// PastMoment is when something happened by the clock of the server: not before After, and by By. They
// are the same for what passed through the server. After is null if that is unknown.
type PastMoment struct {
	After *time.Time `json:"after"`
	By    time.Time  `json:"by"`
	// ByAgoMs is how long ago By was.
	ByAgoMs Millis `json:"byAgoMs"`
}

// Kept describes how complete the history of a server is.
type Kept struct {
	Server string `json:"server"`
	// Since is the beginning of the kept history by the clock of the server, and SinceAgoMs how
	// long ago that was.
	Since      time.Time `json:"since"`
	SinceAgoMs Millis    `json:"sinceAgoMs"`
	// Removed is null unless the file was full: some of the holds that began by then are missing.
	Removed *time.Time `json:"removed"`
	// Dropped is the number of beginnings and ends missing since the server's start.
	Dropped uint64 `json:"dropped"`
	// FailingMs is how long the file could not be written, null if it can be written.
	FailingMs *Millis `json:"failingMs"`
	// PeriodMs is the time between two looks at the store, null if there was none. The history
	// lacks holds that are shorter and did not pass through the server.
	PeriodMs *Millis `json:"periodMs"`
	// Gaps are periods in which the server did not look at all of the store, the newest first.
	Gaps []HistoryGap `json:"gaps"`
}

// HistoryGap is a period by the clock of the server. To is null while it lasts.
type HistoryGap struct {
	From time.Time  `json:"from"`
	To   *time.Time `json:"to"`
}

// History is a part of a history in plain JSON, the newest holds first.
type History struct {
	Holds []PastHold `json:"holds"`
	// Truncated means that there are more holds.
	Truncated bool `json:"truncated"`
	Kept      Kept `json:"kept"`
}
