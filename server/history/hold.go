package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// How says how a hold ended.
type How string

// The ways to end. A Hold without one is held still, as far as the history knows.
const (
	// Released: its holder released it.
	Released How = "released"
	// Forced: somebody released it by force through this server.
	Forced How = "forced"
	// Lost: nobody released it. A renewal of its holder found that it had ended, or its time was
	// over, and it was not renewed when that was due.
	Lost How = "lost"
	// Unknown: a look does not show it any more. It was released, perhaps by force, or its time
	// was over.
	Unknown How = "unknown"
)

// Moment is when something happened: not before After, and by By. Both are the same for what
// passed through this server. Else After is when a look, or a call, has last shown that it had
// not happened yet. It is zero if the history does not know that.
type Moment struct {
	After time.Time `json:",omitzero"`
	By    time.Time
}

func exactly(at time.Time) Moment { return Moment{at, at} }

// Hold is what the history knows of one hold. All times are of the clock of this server. A
// Storage may keep it as JSON.
type Hold struct {
	// Number is larger than that of each hold which was noted before.
	Number   int64
	Resource string
	// Ref and Token name the hold to people: wire.RefOf its hold ID, and its fencing token.
	Ref   string
	Token uint64 `json:",omitzero"`
	Mode  driver.Mode
	Limit int `json:",omitzero"` // as that of driver.Status
	driver.Details
	Began Moment
	// Ended is zero, and How is empty, while no end is known.
	Ended Moment `json:",omitzero"`
	How   How    `json:",omitzero"`
	// By has released it by force, and gave the Reason.
	By     string `json:",omitzero"`
	Reason string `json:",omitzero"`

	// Share is whose share of the Storage it takes: that of the caller who has got it through
	// this server. It is empty if a look has shown it first: all of these have one share.
	Share string `json:",omitzero"`
	// Hash tells holds of one Resource apart, two of the same Ref as well: nobody finds two hold
	// IDs with the same one, or a hold ID by it.
	Hash string
}

func hashOf(id driver.HoldID) string {
	// The bare hash is the lock ID of holds without one, by which they can be released.
	sum := sha256.Sum256([]byte("history " + id.String()))
	return hex.EncodeToString(sum[:16])
}

// Query chooses holds.
type Query struct {
	// Resource is whose holds they are; empty: those of all.
	Resource string
	// Before chooses holds with smaller numbers; 0 chooses all. The number of the last hold of a
	// page is that before which the next page begins.
	Before int64
	// Since chooses holds that ended then or later, or have no end.
	Since time.Time
	// Losses chooses holds that ended as Forced or Lost, those that ended last first.
	Losses bool
	// Limit is how many there are at most; 0 is DefaultLimit.
	Limit int
}

// DefaultLimit is that of a Query.
const DefaultLimit = 100

// Gap is a time in which the server did not look at all of the store: looks failed, took very
// long or were cut, or the server was not there. What others did and had undone by then is not in
// the history.
type Gap struct {
	// From and To are its bounds. To is zero while it lasts.
	From, To time.Time
}

// Bounds are those of what a Storage keeps.
type Bounds struct {
	// Since is when the history begins.
	Since time.Time
	// Removed: some of the holds that began by then are missing, because there was no room. It
	// is zero if there always was.
	Removed time.Time
}

// Looks are those at the store of which everything is written.
type Looks struct {
	Last time.Time // when the last one began that has shown all of the store
	Gaps []Gap     // the newest first
}

// Saved is what a Log needs of what another process has written.
type Saved struct {
	Bounds
	Looks
	Open []Hold // those without an end
	Last int64  // the highest Number
}

// Storage keeps the holds of a Log. Write is called by one goroutine, Holds by several. Each may
// fail, or not return until its ctx is over, or never: the Log then goes on without it. Package
// historyfile has the one of servers; programs with a history need its library for SQLite, others
// do not.
type Storage interface {
	Load(ctx context.Context) (Saved, error)
	// Write writes all of it or nothing. Holds take the place of those with the same Number, and
	// looks that of those before unless it is nil. Write bounds what is kept, also if there is
	// nothing new: of those who have most, the oldest goes first.
	Write(ctx context.Context, holds []Hold, looks *Looks) (Bounds, error)
	// Holds returns those that the query chooses, whose limit is not 0, the newest first.
	Holds(ctx context.Context, q Query) ([]Hold, error)
	Close() error
}

// State is how well the history is kept.
type State struct {
	// Name is that of the server which keeps it.
	Name string
	Bounds
	// Noted are the beginnings and ends that were written since the Log was opened, those of one
	// hold together if it was short. Dropped are those that are missing, at most.
	Noted, Dropped uint64
	// Err is why the storage cannot be written now, and Failing since when.
	Err     error
	Failing time.Time
	// Looks: looks at the store show what others do. Period is the time between two of them:
	// others' holds that are shorter may not be seen here. It is 0 before the first look.
	Looks  bool
	Period time.Duration
	// Gaps are when the server did not look, the newest first, as far as the history goes back.
	Gaps []Gap
}
