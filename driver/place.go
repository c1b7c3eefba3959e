package driver

import (
	"strings"
	"time"
)

// MaxPlaces is the number of places in the queue of a resource. Further waiters get none
// (HeldError.Position is NoPlace) and try again from time to time.
const MaxPlaces = 64

// FairPlaceTTL is how long a fair place is kept after each request for it. It is short,
// because the place of a killed waiter blocks a free resource for that long. PlainPlaceTTL is
// for other places, which block nobody: a process can renew thousands of them at little cost.
const (
	FairPlaceTTL  = 10 * time.Second
	PlainPlaceTTL = time.Minute
)

// MaxPlaceName is the number of bytes of an owner or a host that a place keeps.
const MaxPlaceName = 64

// NoPlace is the position of an acquirer that has no place in the queue.
const NoPlace = -1

// PlaceID identifies a place in the queue of a resource. The Client makes one for each wait.
// It differs from the hold IDs: a wait makes many attempts, each with a hold ID of its own.
// The zero PlaceID means no ID.
type PlaceID [12]byte

// NewPlaceID returns a random ID.
func NewPlaceID() PlaceID { return PlaceID(NewHoldID()) }

// IsZero reports whether id is the zero ID.
func (id PlaceID) IsZero() bool { return id == PlaceID{} }

// String returns 24 hex digits, or "" for the zero ID.
func (id PlaceID) String() string { return HoldID(id).String() }

// MarshalText returns the text of String.
func (id PlaceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (id *PlaceID) UnmarshalText(text []byte) error {
	return readID((*[12]byte)(id), "place ID", text)
}

// Place is a waiter in the store's queue of a resource.
type Place struct {
	Resource string
	// ID is the ID with which its waiter asks. A server hides it: it is then zero.
	ID     PlaceID
	LockID string
	Mode   Mode
	// Limit is the limit of a shared request: 0 for none. It is 0 for exclusive requests.
	Limit int
	// Owner and Host have at most MaxPlaceName bytes.
	Owner, Host string
	// Fair says that no later waiter may overtake this one.
	Fair bool
	// Position is the number of live places before it, fair or not. (HeldError.Position is
	// the number of waiters that are served first.)
	Position int
	// Since is when the waiter got the place, and Asked when it last asked for it, by the
	// store's clock. The store updates Asked only after a quarter of the time for which the
	// place is kept. A Client asks for a fair place at least every 2.5 s, for other places
	// every 15 s.
	Since, Asked time.Time
	// Seen is the time of the store's clock when it read the place, for Age and AskedAgo. It
	// is zero if the store did not return it.
	Seen time.Time
	// Left is how long the place is kept if its waiter does not ask for it again.
	Left time.Duration
}

// CutPlaceName returns the part of an owner or a host that a place keeps: at most
// MaxPlaceName bytes, in whole characters.
func CutPlaceName(s string) string {
	if len(s) <= MaxPlaceName {
		return s
	}
	return strings.ToValidUTF8(s[:MaxPlaceName], "")
}
