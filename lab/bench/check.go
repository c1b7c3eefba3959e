package main

import (
	"errors"
	"fmt"
	"sync"
)

// A measurement ends at the first error, as a test does: it panics with a failure, which
// runOne returns. What goroutines of its own do returns errors, or is done by atOnce.
type failure struct{ error }

// check ends the measurement if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// failf ends the measurement.
func failf(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// must is the value of a call that did not fail.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// finish, deferred, closes something, even if the measurement fails.
func finish(closes func() error) {
	failed, err := failedBy(recover()), closes()
	check(errors.Join(failed, err))
}

// undo, deferred, closes something if what comes after it fails.
func undo(closes func() error) {
	if failed := failedBy(recover()); failed != nil {
		check(errors.Join(failed, closes()))
	}
}

// atOnce does it n times at once, and fails if one of them does.
func atOnce(n int, do func(i int)) {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { errs[i] = failedBy(recover()) }()
			do(i)
		})
	}
	all.Wait()
	check(errors.Join(errs...))
}

// failedBy is the error of a failure that was recovered. Any other panic goes on.
func failedBy(recovered any) error {
	if recovered == nil {
		return nil
	}
	f, ok := recovered.(failure)
	if !ok {
		panic(recovered)
	}
	return f.error
}
