package mongolock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

// What needs a server is tested in tests/mongolock.

func TestMain(m *testing.M) { leaktest.Main(m) }
