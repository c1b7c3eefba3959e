package mongolock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

// The tests that need a server are in mongolock/integration.

func TestMain(m *testing.M) { leaktest.Main(m) }
