package driver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The named outcomes. Package holdfast exports the ones that its callers meet.
var (
	// ErrHeld: another hold is in the way. A store answers with a *HeldError.
	ErrHeld = errors.New("held by another")
	// ErrLost: the hold is past its end, released or not there.
	ErrLost = errors.New("lost")
	// ErrUnsupported: the store cannot do this at all.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrInvalid: the request is malformed. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrUnusable: the store cannot be used until somebody fixes it: a wrong
	// address, a refused password, a missing index, a newer schema, a full or
	// read-only disk. A retry alone does not help.
	ErrUnusable = errors.New("store cannot be used")
	// ErrDamaged: a record cannot be understood. It is left as it is.
	ErrDamaged = errors.New("damaged record")
)

// HeldError describes the holds that are in the way of an acquire. It is ErrHeld.
// model.Acquire makes those of all stores, also of stores whose server decides.
type HeldError struct {
	Resource string
	// Holders are the holds that block, as far as the store returned them. Their
	// Waited may include the refusal itself.
	Holders []Status
	// RetryAfter is the time after which an acquire may be granted even if nobody
	// releases: Forever if a hold without an end is in the way, Unknown if the store
	// did not return it.
	RetryAfter time.Duration
	// BySelf: the lock ID of the request itself has a live hold on the resource.
	BySelf bool
	// LimitDiffers: a shared hold is in the way that was granted with another
	// limit. The programs that share the resource do not agree on it.
	LimitDiffers bool
	// Cause is why a wait for the resource ended, or nil for a plain refusal.
	Cause error
}

// Error names the resource and, if there is just one, its holder.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast: %q is held", e.Resource)
	switch {
	case e.BySelf:
		b.WriteString(" by the same lock ID")
	case len(e.Holders) == 1:
		fmt.Fprintf(&b, " by %s", holderName(e.Holders[0]))
	case len(e.Holders) > 1:
		fmt.Fprintf(&b, " by %s and %d more", holderName(e.Holders[0]), len(e.Holders)-1)
	}
	if e.LimitDiffers {
		b.WriteString(e.heldLimit())
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": gave up waiting: %v", e.Cause)
	}
	return b.String()
}

// heldLimit says which limit the holders have, as far as the store returned it.
func (e *HeldError) heldLimit() string {
	for _, s := range e.Holders {
		switch {
		case s.Mode != Shared || s.Limit == LimitUnknown:
		case s.Limit == 0:
			return " without a limit, but this request has one"
		default:
			return fmt.Sprintf(" with limit %d, which is not the limit of this request", s.Limit)
		}
	}
	return " with another limit than this request has"
}

func holderName(s Status) string {
	switch {
	case s.Owner != "" && s.Host != "":
		return fmt.Sprintf("%s on %s", s.Owner, s.Host)
	case s.Owner != "":
		return s.Owner
	}
	return fmt.Sprintf("lock ID %q", s.LockID)
}

// Is makes every HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns Cause, so that a wait that was cancelled is also ctx.Err().
func (e *HeldError) Unwrap() error { return e.Cause }
