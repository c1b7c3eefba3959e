// Package foreign keeps the errors of libraries, and of the code of users that these call,
// from being taken for answers of a store.
package foreign

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Error returns err, which is of code that is not the store's own, with its text. If ctx has
// ended, that is all that is left of err, and the error is ctx.Err(): libraries return the
// cause of ctx as well, which may be any error, that of another lock too. So it is if err is
// a named error of package driver, or one of named: a dialer or a http.RoundTripper may lock,
// too. All other errors are returned as they are.
func Error(ctx context.Context, err error, named ...error) error {
	if err == nil {
		return nil
	}
	if end := ctx.Err(); end != nil {
		if err == end { //nolint:errorlint // what wraps it may wrap others
			return err
		}
		return failure{err, end}
	}
	for _, answer := range append(named,
		driver.ErrHeld, driver.ErrLost, driver.ErrUnsupported, driver.ErrInvalid, driver.ErrUnusable, driver.ErrDamaged) {
		if errors.Is(err, answer) {
			return failure{err, nil}
		}
	}
	return err
}

// CtxError returns why ctx ended: an error that is ctx.Err(), and tells the cause if the
// caller gave one. It is not the cause: that may be the error of another lock.
func CtxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err { //nolint:errorlint // what wraps it says more
		return err
	}
	return fmt.Errorf("%w: %v", err, cause)
}

// failure is an error of which the text is left, and the ctx.Err() that it is.
type failure struct{ of, end error }

func (f failure) Error() string {
	if f.end == nil || errors.Is(f.of, f.end) {
		return f.of.Error()
	}
	return f.end.Error() + ": " + f.of.Error()
}

func (f failure) Unwrap() error { return f.end }
