// Package httplock_test puts package httplock in front of the server that it is for, with
// stores of every kind behind that. What each of them does alone is tested beside it.
package httplock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/engines"
)

func TestMain(m *testing.M) { engines.Main(m) }
