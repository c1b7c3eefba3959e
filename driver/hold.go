package driver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// Forever is the TTL of a hold without an end, and the time that such a hold has left.
const Forever = time.Duration(math.MaxInt64)

// MaxTTL is the longest finite TTL.
const MaxTTL = 100 * 365 * 24 * time.Hour

// DefaultMargin returns the default of holdfast.Options.Margin, how long before its end in
// the store a hold with that TTL counts as lost: TTL/16, but at most 5 s and at least 250 ms
// or TTL/4, whichever is less.
func DefaultMargin(ttl time.Duration) time.Duration {
	return min(max(ttl/16, min(ttl/4, 250*time.Millisecond)), 5*time.Second)
}

// Unknown is a duration that the store did not return in the same round trip.
const Unknown = time.Duration(-1)

// LimitUnknown is the limit of a shared hold that was stored without a limit, by an earlier
// version or by a program without limits.
const LimitUnknown = -1

// Mode is the mode of a hold, Exclusive or Shared.
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

// MarshalText returns the text of String.
func (m Mode) MarshalText() ([]byte, error) {
	if m > Shared {
		return nil, fmt.Errorf("no such mode: %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText parses the text of MarshalText.
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

// HoldID identifies one acquisition. The Client makes it before the first request, so that
// every request about the hold can be repeated. The zero HoldID means no ID. In a HoldRef it
// stands for any hold of the lock ID.
type HoldID [12]byte

// NewHoldID returns a random ID.
func NewHoldID() HoldID {
	var id HoldID
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	return id
}

// ParseHoldID parses the 24 hex digits of String. Its error wraps ErrInvalid.
func ParseHoldID(s string) (HoldID, error) {
	var id HoldID
	if err := id.UnmarshalText([]byte(s)); err != nil {
		return HoldID{}, err
	}
	return id, nil
}

// IsZero reports whether id is the zero ID.
func (id HoldID) IsZero() bool { return id == HoldID{} }

// String returns 24 hex digits, or "" for the zero ID. It is not inlined, because stores call
// it in 60 places.
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

// MarshalText returns the text of String.
func (id HoldID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (id *HoldID) UnmarshalText(text []byte) error {
	return readID((*[12]byte)(id), "hold ID", text)
}

// readID parses 24 hex digits, or an empty text for the zero ID.
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

// Details describe the holder and the purpose of a hold, for Status. No decision depends on
// them.
type Details struct {
	Owner   string
	Host    string
	Comment string
}

// HoldRef identifies a hold. A hold matches if its resource, lock ID, hold ID and token equal
// the fields of the ref. Some fields may be zero.
type HoldRef struct {
	Resource string
	LockID   string
	// HoldID may be zero for any hold of the resource by the lock ID. This is only for forced
	// administration: such a request must be sent once and never repeated.
	HoldID HoldID
	// Token may be 0 if it is not known, for cleaning up after an acquire without an answer.
	Token uint64
}

// Status is a hold in the store.
type Status struct {
	Resource string
	LockID   string
	HoldID   HoldID
	Mode     Mode
	// Limit is the limit of a shared hold: 0 for none, LimitUnknown if the store did not keep
	// it. It is 0 for exclusive holds.
	Limit int
	Token uint64
	Details
	// Created and Renewed are times of the store's clock. Renewed is zero if the hold was
	// never renewed.
	Created time.Time
	Renewed time.Time
	// Seen is the time of the store's clock when it read the hold. Use Age and RenewedAgo: a
	// time of another clock must not be subtracted from these times. Seen is zero if the
	// store did not return it, or if Created and Renewed may be of another clock: programs
	// without Holdfast, whose holds have no hold ID, write times of their own clocks.
	Seen time.Time
	// Left is the time until the end of the hold: 0 if it has expired, Forever if it has no
	// end, Unknown if the store did not return it.
	Left time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end.
	TakeoverDelay time.Duration
	// Released says that the hold was released with a delay. It cannot be renewed, and its
	// takeover delay does not count.
	Released bool
}

// Live reports whether the hold had time left when the store answered.
func (s Status) Live() bool { return s.Left > 0 }

// Ref returns the ref that matches only this hold.
func (s Status) Ref() HoldRef {
	return HoldRef{Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Token: s.Token}
}
