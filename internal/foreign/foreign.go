// Package foreign prevents errors of libraries, and of user code that they call, from being
// taken for answers of a store.
package foreign

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Error returns err, an error of code outside the store, with its text. If ctx has ended, the
// result keeps only the text of err and matches only ctx.Err(): libraries may return the
// cause of ctx, which may be any error, also one about another lock. Likewise only the text
// is kept if err is a named error of package driver or one of named: a dialer or an
// http.RoundTripper may use locks too. All other errors are returned unchanged.
func Error(ctx context.Context, err error, named ...error) error {
	if err == nil {
		return nil
	}
	if end := ctx.Err(); end != nil {
		if err == end { //nolint:errorlint // an error that wraps it may wrap others
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

// CtxError returns why ctx ended: an error that matches ctx.Err() and has the cause of ctx in
// its text. It does not match the cause, which may be the error of another lock.
func CtxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err { //nolint:errorlint // an error that wraps it says more
		return err
	}
	return fmt.Errorf("%w: %v", err, cause)
}

// failure is the text of an error, and the ctx.Err() that it matches.
type failure struct{ of, end error }

func (f failure) Error() string {
	if f.end == nil || errors.Is(f.of, f.end) {
		return f.of.Error()
	}
	return f.end.Error() + ": " + f.of.Error()
}

func (f failure) Unwrap() error { return f.end }
