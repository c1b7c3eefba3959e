// Package httplock_test tests package httplock with its server, in front of stores of
// every kind. Tests of one part alone are beside that part.
package httplock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/engines"
)

func TestMain(m *testing.M) { engines.Main(m) }
