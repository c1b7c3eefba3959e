package observe

import (
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// Outcome returns Granted, IsHeld, Lost or Unknown for the error of an attempt, a wait or a
// call of Lock. A grant that came too late counts as Lost. It returns "" if Close ended the
// call, which then has no outcome and does not count.
func Outcome(err error) string {
	switch {
	case errors.Is(err, holdfast.ErrClosed):
		return ""
	case err == nil:
		return Granted
	case errors.Is(err, holdfast.ErrHeld):
		return IsHeld
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrTTLTooShort):
		return Lost
	}
	return Unknown
}

// renewal returns Renewed, Lost or Unknown.
func renewal(err error) string {
	if err == nil {
		return Renewed
	}
	return Outcome(err)
}

// Cause returns the reason of a loss, Expired, Forced or Unreachable, or "" if err is no
// loss.
func Cause(err error) string {
	switch {
	case !errors.Is(err, holdfast.ErrLost):
		return ""
	case errors.Is(err, holdfast.ErrUnreachable):
		return Unreachable
	case errors.Is(err, holdfast.ErrForced):
		return Forced
	}
	return Expired
}

// Confirmed returns "true" or "false" for the error of a release. The store has also
// confirmed the release of a lock that another program has retaken.
func Confirmed(err error) string {
	return strconv.FormatBool(err == nil || errors.Is(err, holdfast.ErrLost))
}
