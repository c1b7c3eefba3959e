// Package httplock_test puts package httplock in front of the server that it is for, with
// stores of every kind behind that. What each of them does alone is tested beside it.
package httplock_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Most of the time they wait, for a network or a clock.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
