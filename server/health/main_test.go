package health_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
