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
	// ErrUnusable: the store certainly cannot be used until somebody fixes it: a wrong
	// address, a refused password, a missing index, a newer schema, a read-only
	// disk of this machine. A retry alone does not help. Where passing
	// causes have the same code, a store returns this error only if a text or the
	// place of the failure tells them apart.
	ErrUnusable = errors.New("store cannot be used")
	// ErrDamaged: a record cannot be understood. It is left as it is.
	ErrDamaged = errors.New("damaged record")
)

// Definite reports whether err is one of the named outcomes: the request was not applied.
func Definite(err error) bool {
	for _, named := range []error{ErrHeld, ErrLost, ErrUnsupported, ErrInvalid, ErrUnusable, ErrDamaged} {
		if errors.Is(err, named) {
			return true
		}
	}
	return false
}

// HeldError describes the holds that are in the way of an acquire. It is ErrHeld.
// Package model makes it for all stores, also for stores whose server decides.
type HeldError struct {
	Resource string
	// Holders are the holds of the resource, as far as the store returned them. There may
	// be none, or none that is in the way: then others are ahead in the queue.
	Holders []Status
	// Position is how many are served before the acquirer: 0 means that it is next. The
	// command's positions count from 1. They are the fair waiters whose places are before
	// its own. It is NoPlace if the acquirer has no place itself, as in a TryLock; those in
	// Ahead are served before it all the same.
	Position int
	// Waiters is how many places the queue has, fair or not, the acquirer's own included.
	Waiters int
	// Ahead has the first four waiters that are served before the acquirer.
	Ahead []Place
	// RetryAfter is the time after which an acquire may be granted even if nobody
	// releases: Forever if a hold without an end is in the way, Unknown if the store
	// did not return it. Waiters ahead count as if they went at once, so it is 0 if only
	// these are in the way.
	RetryAfter time.Duration
	// BySelf: the lock ID of the request itself has a live hold on the resource. That is what a
	// store says. A Client says so only of a hold of its own, by that lock ID or in the ctx of
	// the caller, who would wait for itself. A hold of the same lock ID that another process
	// has, or had before it was killed, is like any other; Holders shows it.
	BySelf bool
	// LimitDiffers: a shared hold is in the way that was granted with another
	// limit. The programs that share the resource do not agree on it.
	LimitDiffers bool
	// Cause is why a wait for the resource ended, or nil for a plain refusal.
	Cause error
}

// OnlyAhead reports whether nothing but waiters that are served first is in the way: the
// resource is free, or shared by holds that leave room for the acquirer.
func (e *HeldError) OnlyAhead() bool {
	return len(e.Ahead) > 0 && (len(e.Holders) == 0 || e.RetryAfter == 0 && !e.BySelf && !e.LimitDiffers)
}

// Error names the resource and, if there is just one, its holder, or who is first in the
// queue if that is all that is in the way.
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

// sharedBy says who shares the resource with those ahead.
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

// Holder names the holder for people: its owner and host, or its lock ID.
func (s Status) Holder() string { return nameOf(s.Owner, s.Host, s.LockID) }

// Waiter names the waiter as Status.Holder does a holder.
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

// Is makes every HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns Cause, so that a wait that was cancelled is also ctx.Err().
func (e *HeldError) Unwrap() error { return e.Cause }
