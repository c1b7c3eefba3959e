package pglock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

// What needs a server is tested in pglock/integration.

func TestMain(m *testing.M) { leaktest.Main(m) }
