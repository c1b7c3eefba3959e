package pglock

import (
	"testing"

	"go.uber.org/goleak"
)

// What needs a server is tested in tests/pglock.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
