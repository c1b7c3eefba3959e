package driver

import (
	"strings"
	"time"
)

// MaxPlaces is how many places the queue of a resource has. Further waiters get none
// (HeldError.Position is then NoPlace) and try again from time to time.
const MaxPlaces = 64

// FairPlaceTTL is how long a fair place is kept after each request for it. It is short,
// because a waiter that was killed keeps a free resource from others for that long.
// PlainPlaceTTL is that of the others, which stop nobody: to ask for thousands of them costs
// a process nothing.
const (
	FairPlaceTTL  = 10 * time.Second
	PlainPlaceTTL = time.Minute
)

// MaxPlaceName is how many bytes of owner and host a place keeps.
const MaxPlaceName = 64

// NoPlace is the position of an acquirer that has no place in the queue.
const NoPlace = -1

// PlaceID names a place in the queue of a resource. The Client makes one for each
// wait. It is never a hold ID: a wait makes many attempts, each with a hold ID of its
// own. The zero PlaceID is no ID.
type PlaceID [12]byte

// NewPlaceID returns a random ID.
func NewPlaceID() PlaceID { return PlaceID(NewHoldID()) }

// IsZero reports whether id is no ID.
func (id PlaceID) IsZero() bool { return id == PlaceID{} }

// String returns 24 hex digits, or "" for the zero ID.
func (id PlaceID) String() string { return HoldID(id).String() }

// MarshalText writes the ID as String does.
func (id PlaceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *PlaceID) UnmarshalText(text []byte) error {
	return readID((*[12]byte)(id), "place ID", text)
}

// Place is a waiter in the queue of a resource, as the store sees it.
type Place struct {
	Resource string
	// ID is what its waiter asks with. A server shows it to nobody: it is zero then.
	ID     PlaceID
	LockID string
	Mode   Mode
	// Limit is that of the request. Exclusive requests have none.
	Limit int
	// Owner and Host have MaxPlaceName bytes at most.
	Owner, Host string
	// Fair: nobody that comes later passes the place.
	Fair bool
	// Position is how many live places were before it, fair or not. HeldError.Position
	// counts the waiters that are served first.
	Position int
	// Since is when the waiter got the place, and Asked when it last asked for it: times
	// of the store's clock. The store notes a request once a quarter of the time that the
	// place is kept has passed. A Client asks for a fair place at least every 2.5 s, for
	// others every 15 s.
	Since, Asked time.Time
	// Seen is the time of the store's clock at which it looked at the place, for Age and
	// AskedAgo. It is zero if the store did not return it.
	Seen time.Time
	// Left is how long the place is kept unless its waiter asks for it again.
	Left time.Duration
}

// CutPlaceName returns at most MaxPlaceName bytes of an owner or a host, in whole
// characters: what a place keeps of it.
func CutPlaceName(s string) string {
	if len(s) <= MaxPlaceName {
		return s
	}
	return strings.ToValidUTF8(s[:MaxPlaceName], "")
}
