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

// The errors of this package, for errors.Is. Any other error means that the outcome is
// unknown: the store gave no answer.
var (
	// ErrHeld means that another hold, or a waiter that is served first, is in the way.
	// The error is a *HeldError.
	ErrHeld = driver.ErrHeld

	// ErrLost means that the hold has ended. The error of a Hold is a *LostError whose
	// cause is ErrExpired, ErrForced or ErrUnreachable.
	ErrLost = driver.ErrLost

	// ErrExpired means that the time of the hold ran out because nothing renewed it, or
	// because the process or the machine was stopped.
	ErrExpired = lease.ErrExpired

	// ErrForced means that the hold ended in the store before its time: somebody released
	// it by force or purged it, the store lost its data, or the store's clock stepped.
	ErrForced = lease.ErrForced

	// ErrUnreachable means that the store confirmed no renewal in time.
	ErrUnreachable = lease.ErrUnreachable

	// ErrReleased means that Unlock or Admin.ReleaseID released the hold.
	ErrReleased = lease.ErrReleased

	// ErrClosed means that the Client is closed.
	ErrClosed = errors.New("holdfast: client closed")

	// ErrUnsupported means that the store does not have this operation.
	ErrUnsupported = driver.ErrUnsupported

	// ErrInvalid means that an argument or an option is invalid. Nothing was sent.
	ErrInvalid = driver.ErrInvalid

	// ErrUnusable means that the store cannot be used until somebody fixes it. A retry
	// alone does not help.
	ErrUnusable = driver.ErrUnusable

	// ErrDamaged means that a record in the store cannot be understood. It was not changed.
	ErrDamaged = driver.ErrDamaged

	// ErrStale means that the protected data has seen a larger fencing token or, in
	// fence/httpfence, that the hold of the token has ended. The fence packages return it.
	ErrStale = errors.New("stale fencing token")

	// ErrTTLTooShort means that three grants in a row came too late to be used.
	ErrTTLTooShort = errors.New("the TTL is too short for this store")
)

// LostError is the error of a lost lock, with the reason. It matches ErrLost.
type LostError struct {
	Resource string
	LockID   string
	Token    uint64
	// Cause wraps ErrExpired, ErrForced or ErrUnreachable.
	Cause error
}

// Error returns a text with the resource and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("holdfast: lock of %q lost: %v", e.Resource, e.Cause)
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// opError adds the failed operation to an error.
type opError struct {
	op  string // with the name of its resource or lock ID
	err error
}

func (e *opError) Error() string { return "holdfast: " + e.op + ": " + e.err.Error() }

func (e *opError) Unwrap() error { return e.err }

// wrap adds the operation and, if it has one, the name of its resource or lock ID. It returns
// an error unchanged whose text begins with the package's name already.
func wrap(op, name string, err error) error {
	switch err.(type) { //nolint:errorlint // errors that wrap these begin otherwise
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

// joined joins two errors, or returns the only one. It leaves out the second error if the
// first one is or wraps it.
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
func answered(err error) bool { return errors.Is(err, ErrHeld) || permanent(err) }

// permanent reports whether a retry is useless.
func permanent(err error) bool { return storecall.Permanent(err) }

// endedWith returns the error of the ended ctx, with the error of the last attempt unless
// that is the same.
func endedWith(ctx context.Context, err error) error {
	end := foreign.CtxError(ctx)
	if errors.Is(err, ctx.Err()) {
		return end
	}
	return fmt.Errorf("%w; the last attempt: %w", end, err)
}
