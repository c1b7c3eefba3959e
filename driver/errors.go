package driver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The named errors. Package holdfast exports them too.
var (
	// ErrHeld means that another hold, or a waiter that is served first, is in the way. A
	// store returns a *HeldError.
	ErrHeld = errors.New("held by another")
	// ErrLost means that the hold has expired, was released or is not there.
	ErrLost = errors.New("lost")
	// ErrUnsupported means that the store does not have this operation.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrInvalid means that the request is malformed. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrUnusable means that the store certainly cannot be used until somebody fixes it: a
	// wrong address, a refused password, a missing index, a newer schema, a read-only disk of
	// this machine. A retry alone does not help. If temporary failures have the same error
	// code, a store returns ErrUnusable only if a text or the place of the failure tells them
	// apart.
	ErrUnusable = errors.New("store cannot be used")
	// ErrDamaged means that a record cannot be understood. It was not changed.
	ErrDamaged = errors.New("damaged record")
)

// Definite reports whether err is one of the named errors: the request was not applied.
func Definite(err error) bool {
	for _, named := range []error{ErrHeld, ErrLost, ErrUnsupported, ErrInvalid, ErrUnusable, ErrDamaged} {
		if errors.Is(err, named) {
			return true
		}
	}
	return false
}

// HeldError describes the holds and the waiters that are in the way of an acquire. It matches
// ErrHeld. Package model makes it for all stores, also for stores whose server decides.
type HeldError struct {
	Resource string
	// Holders has the holds of the resource, as far as the store returned them. If none of
	// them is in the way, or there are none, waiters are served first.
	Holders []Status
	// Position is the number of waiters that are served before the acquirer: the fair waiters
	// whose places are before its own. It is 0 if the acquirer is next (the holdfast command
	// counts from 1), and NoPlace if the acquirer has no place, as in a TryLock. The waiters
	// in Ahead are served first in any case.
	Position int
	// Waiters is the number of places in the queue, fair or not, including the acquirer's
	// own.
	Waiters int
	// Ahead has the first four waiters that are served before the acquirer.
	Ahead []Place
	// RetryAfter is the time after which an acquire may be granted even if nobody releases a
	// hold. It is Forever if a hold without an end is in the way, and Unknown if the store
	// did not return it. Waiters ahead count as if they left at once, so it is 0 if only
	// waiters are in the way.
	RetryAfter time.Duration
	// BySelf says that the caller would wait for itself. A store sets it if the request's
	// lock ID has a live hold of the resource. A Client sets it only for its own holds, by
	// that lock ID or bound to the ctx of the caller. In a Client's error, a hold of the same
	// lock ID that another process has, or had before it was killed, is like any other hold:
	// Holders shows it.
	BySelf bool
	// LimitDiffers says that a shared hold with another limit is in the way: the programs
	// that share the resource have different limits.
	LimitDiffers bool
	// Cause is the reason why a wait for the resource ended. It is nil for a plain refusal.
	Cause error
}

// OnlyAhead reports whether only waiters that are served first are in the way: the resource
// is free, or shared by holds that leave room for the acquirer.
func (e *HeldError) OnlyAhead() bool {
	return len(e.Ahead) > 0 && (len(e.Holders) == 0 || e.RetryAfter == 0 && !e.BySelf && !e.LimitDiffers)
}

// Error returns a text with the resource and the first holder, or the first waiter if only
// waiters are in the way.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast: %q is held", e.Resource)
	switch {
	case e.BySelf:
		b.WriteString(" by this caller or its lock ID")
	case e.OnlyAhead():
		b.Reset()
		fmt.Fprintf(&b, "holdfast: %q is %s, but %s waits for it first", e.Resource, e.sharedBy(), e.Ahead[0].Waiter())
	default:
		b.WriteString(e.holders())
	}
	if e.LimitDiffers {
		b.WriteString(e.heldLimit())
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": gave up waiting: %v", e.Cause)
	}
	return b.String()
}

// sharedBy returns "free", or "shared" with the holders.
func (e *HeldError) sharedBy() string {
	if len(e.Holders) == 0 {
		return "free"
	}
	return "shared" + e.holders()
}

func (e *HeldError) holders() string {
	switch n := len(e.Holders); n {
	case 0:
		return ""
	case 1:
		return " by " + e.Holders[0].Holder()
	default:
		return fmt.Sprintf(" by %s and %d more", e.Holders[0].Holder(), n-1)
	}
}

// heldLimit returns a text about the limit of the holders, as far as the store returned it.
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

// Holder returns a name of the holder for people: its owner and host, or its lock ID.
func (s Status) Holder() string { return nameOf(s.Owner, s.Host, s.LockID) }

// Waiter returns a name of the waiter for people: its owner and host, or its lock ID.
func (p Place) Waiter() string { return nameOf(p.Owner, p.Host, p.LockID) }

func nameOf(owner, host, lockID string) string {
	switch {
	case owner != "" && host != "":
		return fmt.Sprintf("%s on %s", owner, host)
	case owner != "":
		return owner
	}
	return fmt.Sprintf("lock ID %q", lockID)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns Cause, so that the error of a cancelled wait also matches ctx.Err().
func (e *HeldError) Unwrap() error { return e.Cause }
