package driver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// Forever is the TTL of a hold without an end, and the time left of one.
const Forever = time.Duration(math.MaxInt64)

// MaxTTL is the longest finite TTL.
const MaxTTL = 100 * 365 * 24 * time.Hour

// DefaultMargin is how long before its end in the store a hold with that TTL counts as lost
// at its holder, unless the Client sets another time: TTL/16, at most 5 s; at least 250 ms or
// TTL/4, whichever is less.
func DefaultMargin(ttl time.Duration) time.Duration {
	return min(max(ttl/16, min(ttl/4, 250*time.Millisecond)), 5*time.Second)
}

// Unknown is a duration that the store did not return in the same round trip.
const Unknown = time.Duration(-1)

// LimitUnknown is the limit of a shared hold that was granted without keeping it: by
// an earlier version, or by a program without limits.
const LimitUnknown = -1

// Mode is how a hold excludes others.
type Mode uint8

// The modes.
const (
	Exclusive Mode = iota
	Shared
)

// String returns "exclusive" or "shared".
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText writes the mode as String does.
func (m Mode) MarshalText() ([]byte, error) {
	if m > Shared {
		return nil, fmt.Errorf("no such mode: %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *Mode) UnmarshalText(text []byte) error {
	switch string(text) {
	case "exclusive":
		*m = Exclusive
	case "shared":
		*m = Shared
	default:
		return fmt.Errorf("no such mode: %s; it is exclusive or shared", quote.Short(string(text)))
	}
	return nil
}

// HoldID names one acquisition. The Client makes it before the first request, so that
// every request about the hold can be repeated. The zero HoldID is no ID: in a
// HoldRef it stands for any hold of the lock ID.
type HoldID [12]byte

// NewHoldID returns a random ID.
func NewHoldID() HoldID {
	var id HoldID
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	return id
}

// ParseHoldID reads the 24 hex digits that String writes.
func ParseHoldID(s string) (HoldID, error) {
	var id HoldID
	if err := id.UnmarshalText([]byte(s)); err != nil {
		return HoldID{}, err
	}
	return id, nil
}

// IsZero reports whether id is no ID.
func (id HoldID) IsZero() bool { return id == HoldID{} }

// String returns 24 hex digits, or "" for the zero ID. Stores call it at 60 places, which
// need no copy of it.
//
//go:noinline
func (id HoldID) String() string {
	if id.IsZero() {
		return ""
	}
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

// MarshalText writes the ID as String does.
func (id HoldID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *HoldID) UnmarshalText(text []byte) error {
	return readID((*[12]byte)(id), "hold ID", text)
}

// readID reads 24 hex digits, or nothing for the zero ID.
func readID(id *[12]byte, what string, text []byte) error {
	var read [12]byte
	if len(text) != 0 {
		if len(text) != hex.EncodedLen(len(read)) {
			return fmt.Errorf("%w: %s has %d characters, want 24 hex digits", ErrInvalid, what, len(text))
		}
		if _, err := hex.Decode(read[:], text); err != nil {
			return fmt.Errorf("%w: %s is not hexadecimal", ErrInvalid, what)
		}
	}
	*id = read
	return nil
}

// Details describe the holder and the purpose of a hold. Status shows them; no
// decision depends on them.
type Details struct {
	Owner   string
	Host    string
	Comment string
}

// HoldRef points at a hold. A hold matches if its resource, lock ID, hold ID and
// token equal the ref's; see the fields for what may be left out.
type HoldRef struct {
	Resource string
	LockID   string
	// HoldID zero: any hold that the lock ID has on the resource. For forced
	// administration only: such a request must be sent once, never repeated.
	HoldID HoldID
	// Token 0: not known. For cleaning up after an acquire without an answer.
	Token uint64
}

// Status is a hold as the store sees it.
type Status struct {
	Resource string
	LockID   string
	HoldID   HoldID
	Mode     Mode
	// Limit is that of the request that was granted a shared hold: 0 for none,
	// LimitUnknown if the store did not keep it. Exclusive holds have none.
	Limit int
	Token uint64
	Details
	// Created and Renewed are times of the store's clock; Renewed is zero for a
	// hold that was never renewed.
	Created time.Time
	Renewed time.Time
	// Seen is the time of the store's clock at which it looked at the hold. See Age and
	// RenewedAgo: a time of another clock must not be subtracted from these times. It is
	// zero if the store did not return it, or if the other times are not of its clock:
	// programs without Holdfast write times of their own clocks, and their holds have no hold ID.
	Seen time.Time
	// Left is how long until the end: 0 past it, Forever without one, Unknown if the
	// store did not return it.
	Left time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end.
	TakeoverDelay time.Duration
	// Released: given up by a release with a delay. It can not be renewed, and
	// its takeover delay does not count.
	Released bool
}

// Live reports whether the hold had not reached its end when the store answered.
func (s Status) Live() bool { return s.Left > 0 }

// Ref returns the ref that matches just this hold.
func (s Status) Ref() HoldRef {
	return HoldRef{Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Token: s.Token}
}
