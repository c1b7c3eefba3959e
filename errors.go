package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// The errors of operations. Any other error means that the outcome is unknown: the
// store gave no answer.
var (
	// ErrHeld: another hold is in the way. The error is a *HeldError.
	ErrHeld = driver.ErrHeld
	// ErrLost: the hold has ended. The error is a *LostError, and its cause is one of
	// the next three.
	ErrLost = driver.ErrLost
	// ErrExpired: the time of the hold ran out, because nothing renewed it, or the
	// process or the machine was stopped.
	ErrExpired = lease.ErrExpired
	// ErrForced: the hold ended in the store before its time. Somebody released it by
	// force or purged it, or the store lost its data or its clock stepped.
	ErrForced = lease.ErrForced
	// ErrUnreachable: the store confirmed no renewal in time.
	ErrUnreachable = lease.ErrUnreachable
	// ErrReleased: Unlock or ReleaseID released the hold.
	ErrReleased = lease.ErrReleased
	// ErrClosed: the Client is closed.
	ErrClosed = errors.New("holdfast: client closed")
	// ErrUnsupported: the store cannot do this at all.
	ErrUnsupported = driver.ErrUnsupported
	// ErrInvalid: an argument is malformed. Nothing was sent.
	ErrInvalid = driver.ErrInvalid
	// ErrUnusable: the store cannot be used until somebody fixes it.
	ErrUnusable = driver.ErrUnusable
	// ErrDamaged: a record in the store makes no sense. It was not changed.
	ErrDamaged = driver.ErrDamaged
	// ErrStale: the protected data has seen a larger fencing token, or, in
	// fence/httpfence, the hold of the token has ended. The fence packages return it.
	ErrStale = errors.New("stale fencing token")
	// ErrTTLTooShort: three grants in a row came too late to be used.
	ErrTTLTooShort = errors.New("the TTL is too short for this store")
)

// LostError names the lock that was lost and the reason. It is ErrLost.
type LostError struct {
	Resource string
	LockID   string
	Token    uint64
	// Cause wraps ErrExpired, ErrForced or ErrUnreachable.
	Cause error
}

// Error names the resource and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("holdfast: lock of %q lost: %v", e.Resource, e.Cause)
}

// Is makes every LostError an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// opError says which operation failed.
type opError struct {
	op  string // with the name of its object
	err error
}

func (e *opError) Error() string { return "holdfast: " + e.op + ": " + e.err.Error() }

func (e *opError) Unwrap() error { return e.err }

// wrap adds the operation and, if it has one, the name of its object. It returns an error
// unchanged that begins with the package's name by itself.
func wrap(op, name string, err error) error {
	switch err.(type) { //nolint:errorlint // what wraps these does not begin so
	case *opError, *HeldError, *LostError:
		return err
	}
	switch {
	case err == ErrReleased, err == ErrClosed: //nolint:errorlint // as above
		return err
	case name == "":
	case errors.Is(err, ErrInvalid): // the name may be what is wrong
		op += " " + quote.Short(name)
	default:
		op += " " + quote.Name(name)
	}
	return &opError{op, err}
}

// joined joins two errors, or returns the one that there is. The second one is not said
// twice: the first may be it, or wrap it.
func joined(err, other error) error {
	switch {
	case other == nil || errors.Is(err, other):
		return err
	case err == nil:
		return other
	}
	return errors.Join(err, other)
}

// answered reports whether err is a definite answer of the store: the request was not
// applied.
func answered(err error) bool { return storecall.Answered(err) }

// permanent reports whether a retry is useless.
func permanent(err error) bool { return storecall.Permanent(err) }

// endedWith returns why ctx ended, with the error of the last attempt unless that is
// ctx's.
func endedWith(ctx context.Context, err error) error {
	end := foreign.CtxError(ctx)
	if errors.Is(err, ctx.Err()) {
		return end
	}
	return fmt.Errorf("%w; the last attempt: %w", end, err)
}
