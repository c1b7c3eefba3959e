package history

import (
	"crypto/sha256"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Kind is what an event tells of a hold.
type Kind string

// The kinds. A hold begins with Granted or Seen, and ends with one of the others. A hold of
// which the history has no end may be held still, or its end was dropped.
const (
	// Granted: this server granted it.
	Granted Kind = "granted"
	// Seen: a look has shown a hold of which the history had nothing. It may be much older.
	Seen Kind = "seen"
	// Released: its holder released it.
	Released Kind = "released"
	// Forced: somebody released it by force through this server.
	Forced Kind = "forced"
	// Gone: a look does not show it any more. It was released, perhaps by force, or ended by
	// its TTL just after the look before; nobody knows which.
	Gone Kind = "gone"
	// Expired: a look does not show it any more, or shows that its time is over. It was not
	// renewed when that was due.
	Expired Kind = "expired"
	// Lapsed: a look does not show it any more, and its time was over since the look before,
	// which was long ago: looks have failed, or the server stood still. It was released, or
	// ended by its TTL; nobody knows which.
	Lapsed Kind = "lapsed"
	// Lost: a renewal of its holder found that it had ended. It may follow Gone or Lapsed, of
	// which it tells more. It is noted by the next look, if that comes soon.
	Lost Kind = "lost"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Granted, Seen, Released, Forced, Gone, Expired, Lapsed, Lost} }

// Begins reports whether a hold begins in the history with such an event.
func (k Kind) Begins() bool { return k == Granted || k == Seen }

// Loss reports whether the holder may not have wanted such an end: nobody released the hold,
// or nobody knows that, or somebody did by force.
func (k Kind) Loss() bool { return k == Forced || k == Expired || k == Lapsed || k == Lost }

// Event is something that became of a hold. A renewal is none.
type Event struct {
	// Number is larger than that of each event before it in the same Log.
	Number int64
	// At is when it was noted, by the clock of this server. That of a release through this server
	// is when it was sent to the store. That of another end is when the hold had ended at the
	// latest, as far as the history knows: a look was over that does not show it, its time was
	// over, or another hold began that excludes it. A later event may have an earlier time.
	At time.Time
	// Within is how long before At it happened at most, if a look has shown it: the time from
	// the beginning of the look before to At, driver.Unknown if that was no look of this process.
	// That of a Lost hold is the time since it was there, by all that the history knows. It is 0
	// for grants by this server and for releases through it.
	Within   time.Duration
	Kind     Kind
	Resource string
	// Ref and Token name the hold to people: wire.RefOf its hold ID, and its fencing token.
	Ref   string
	Token uint64
	// Hash tells holds of one Resource apart, two of the same Ref as well. It is there in the
	// events that a Storage gets, and in those of its method Open; in others it may be zero.
	Hash Hash
	// Left is how long a hold had left when it began in the history, as that of driver.Status.
	// It is there where Hash is.
	Left  time.Duration
	Mode  driver.Mode
	Limit int // as that of driver.Status
	driver.Details
	// Held is how long it was held by then, and RenewedAgo how long ago its last renewal was
	// that the history knows of; driver.Unknown if there was none, or if it is not known. A hold
	// that was Granted has been held for 0.
	Held, RenewedAgo time.Duration
	// Caller has released it by force, and said that as the Reason.
	Caller, Reason string
}

// Ago returns how long ago it was at a time of this server's clock.
func (e Event) Ago(now time.Time) time.Duration { return max(now.Sub(e.At), 0) }

// Hash is of a hold ID, which nobody can find by it. Two hold IDs do not have the same one:
// it is four times as long as a Ref, of which somebody can find two that are the same.
type Hash [16]byte

func hashOf(id driver.HoldID) Hash {
	// The bare hash is the lock ID of holds without one, by which they can be released.
	sum := sha256.Sum256([]byte("history " + id.String()))
	return Hash(sum[:])
}

// hashOfLock is of a lock ID. It tells whether two are the same, and is in no event.
func hashOfLock(id string) Hash {
	sum := sha256.Sum256([]byte("history of a lock " + id))
	return Hash(sum[:])
}

// Query chooses events.
type Query struct {
	// Resource is whose events they are; empty: those of all.
	Resource string
	// Before chooses events with smaller numbers; 0 chooses all. The number of the last event
	// of a page is that before which the next page begins.
	Before int64
	// Since chooses events that were noted at that time or later.
	Since time.Time
	// Limit is how many events there are at most; 0 is DefaultLimit.
	Limit int
}

// DefaultLimit is that of a Query, and of Losses.
const DefaultLimit = 100

// Usual is how long a resource is usually held, by the holds of which the history knows the
// length and that ended well: Released, or Gone. The newest MaxUsual of them count.
type Usual struct {
	Count int
	// Median and P95 are the lengths that half of them, and 95 in 100, did not exceed. Both
	// are driver.Unknown if Count is 0.
	Median, P95 time.Duration
}

// MaxUsual is how many holds Usual looks at.
const MaxUsual = 1000

// State is how well the history is kept.
type State struct {
	// Name is that of the server which keeps it.
	Name string
	// Since is when the history begins: nothing that was before it is kept, or was kept at
	// all. It is the zero time if nothing is known of that yet.
	Since time.Time
	// Noted are the events that were written since the Log was opened, and Dropped those that
	// are missing.
	Noted, Dropped uint64
	// Err is why the storage cannot be written now, and Failing since when.
	Err     error
	Failing time.Time
	// Looks: looks at the store show what others do. Period is the time between two of them:
	// others' holds that are shorter may not be seen here. It is 0 before the first look.
	// Cut: there is more in the store than a look shows, so that the ends of others' holds are
	// not seen.
	Looks  bool
	Period time.Duration
	Cut    bool
	// LooksFail is why the last look at the store has failed, if it has. What others do
	// is not seen until a look succeeds.
	LooksFail error
	// Gaps are when the history did not see all, the newest first, as far as it goes back.
	Gaps []Gap
}
