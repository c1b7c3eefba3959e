package driver

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxName is the largest size of a resource, lock ID, owner, host or comment, in bytes.
const MaxName = 1024

// MaxToken is the largest token. It is below 2^53: exact in JSON and in the numbers of all
// languages.
const MaxToken = 1<<53 - 1

// MaxLimit is the largest limit of shared holds.
const MaxLimit = math.MaxInt32

// Validate checks the request without a store. Its error wraps ErrInvalid.
func (r AcquireRequest) Validate() error {
	if err := (HoldRef{Resource: r.Resource, LockID: r.LockID}).Validate(); err != nil {
		return err
	}
	switch {
	case r.HoldID.IsZero():
		return fmt.Errorf("%w: an acquire needs a hold ID", ErrInvalid)
	case r.Mode > Shared:
		return fmt.Errorf("%w: no such mode: %d", ErrInvalid, uint8(r.Mode))
	case r.Limit < 0:
		return fmt.Errorf("%w: limit %d is negative", ErrInvalid, r.Limit)
	case r.Limit > MaxLimit:
		return fmt.Errorf("%w: limit %d is larger than %d; 0 is no limit", ErrInvalid, r.Limit, MaxLimit)
	case r.Limit > 0 && r.Mode == Exclusive:
		return fmt.Errorf("%w: an exclusive lock has no limit", ErrInvalid)
	case r.TakeoverDelay < 0 || r.TakeoverDelay > MaxTTL:
		return fmt.Errorf("%w: takeover delay %v is not between 0 and 100 years", ErrInvalid, r.TakeoverDelay)
	case r.TakeoverDelay%time.Millisecond != 0:
		return fmt.Errorf("%w: takeover delay %v is not in whole milliseconds", ErrInvalid, r.TakeoverDelay)
	}
	if err := validTTL(r.TTL); err != nil {
		return err
	}
	return r.Details.Validate()
}

// Validate checks the details. Its error wraps ErrInvalid.
func (d Details) Validate() error {
	for _, f := range [...]struct{ what, text string }{
		{"owner", d.Owner}, {"host", d.Host}, {"comment", d.Comment},
	} {
		if f.text == "" {
			continue
		}
		if err := validName(f.what, f.text); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks the names and the token. Its error wraps ErrInvalid.
func (r HoldRef) Validate() error {
	if err := ValidResource(r.Resource); err != nil {
		return err
	}
	if r.Token > MaxToken {
		return fmt.Errorf("%w: token %d is larger than %d", ErrInvalid, r.Token, uint64(MaxToken))
	}
	return ValidLockID(r.LockID)
}

// Validate checks the request. Its error wraps ErrInvalid.
func (r RenewRequest) Validate() error {
	if err := r.HoldRef.Validate(); err != nil {
		return err
	}
	return validTTL(r.TTL)
}

// Validate checks the request. Its error wraps ErrInvalid.
func (r ReleaseRequest) Validate() error {
	if r.After < 0 || r.After > MaxTTL {
		return fmt.Errorf("%w: release after %v is not between 0 and 100 years", ErrInvalid, r.After)
	}
	if r.Reason != "" {
		if r.After != 0 {
			return fmt.Errorf("%w: a forced release ends the hold at once, not after %v", ErrInvalid, r.After)
		}
		if err := validName("reason", r.Reason); err != nil {
			return err
		}
	}
	return r.HoldRef.Validate()
}

// ValidResource checks the name of a resource: 1 to 1024 bytes of UTF-8 without NUL. Its
// error wraps ErrInvalid.
func ValidResource(name string) error { return validName("resource", name) }

// ValidLockID checks a lock ID: 1 to 1024 bytes of UTF-8 without NUL. Its error wraps
// ErrInvalid.
func ValidLockID(id string) error { return validName("lock ID", id) }

// ValidReason checks the reason of a forced release, as ValidResource checks a resource.
func ValidReason(reason string) error { return validName("reason", reason) }

func validName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(s) > MaxName:
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrInvalid, what, len(s), MaxName)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%w: %s contains a NUL byte", ErrInvalid, what)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalid, what)
	}
	return nil
}

func validTTL(ttl time.Duration) error {
	switch {
	case ttl == Forever:
		return nil
	case ttl < time.Millisecond || ttl > MaxTTL:
		return fmt.Errorf("%w: TTL %v is not between 1 ms and 100 years", ErrInvalid, ttl)
	case ttl%time.Millisecond != 0:
		return fmt.Errorf("%w: TTL %v is not in whole milliseconds", ErrInvalid, ttl)
	}
	return nil
}
