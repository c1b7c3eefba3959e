package main

import (
	"errors"
	"fmt"
	"sync"
)

// failure is the panic value that ends a measurement at its first error; runOne returns it.
// Goroutines of a measurement return their errors instead, or use atOnce.
type failure struct{ error }

// check ends the measurement if err is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// failf ends the measurement.
func failf(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// must returns the value of a call, and ends the measurement if the call failed.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// finish, when deferred, closes something, even if the measurement fails.
func finish(closes func() error) {
	failed, err := failedBy(recover()), closes()
	check(errors.Join(failed, err))
}

// undo, when deferred, closes something if the measurement fails.
func undo(closes func() error) {
	if failed := failedBy(recover()); failed != nil {
		check(errors.Join(failed, closes()))
	}
}

// atOnce calls do n times at once, and ends the measurement if one call fails.
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

// failedBy returns the error of a recovered failure. It panics again for any other panic.
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
