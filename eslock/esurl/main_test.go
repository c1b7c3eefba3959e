package esurl

import (
	"testing"

	"go.uber.org/goleak"
)

// What needs a server is tested in tests/eslock.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
