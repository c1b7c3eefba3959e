// Package observe_test tests otelholdfast and promholdfast with the real SDKs, on real
// stores, and the alert rules and the dashboard in docs/observe with Prometheus' own
// packages. It is a module of its own because of these.
package observe_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
