package mongolock

import (
	"testing"

	"go.uber.org/goleak"
)

// What needs a server is tested in tests/mongolock.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
