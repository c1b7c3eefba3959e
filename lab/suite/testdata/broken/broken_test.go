// Package broken has one test for each outcome.
package broken

import "testing"

func TestPasses(t *testing.T) {
	t.Log("said by a test that passes")
	t.Run("subtest", func(*testing.T) {})
}

func TestFails(t *testing.T) { t.Error("said by a test that fails") }

func TestSkipped(t *testing.T) { t.Skip("no server: install one") }

func TestSkippedToo(t *testing.T) { t.Skip("no server: install one") }

func TestDoesNotApply(t *testing.T) {
	t.Log("said before the reason")
	t.Skip("this store has no queue")
}

func TestOuter(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Run("it's (odd)", func(t *testing.T) { t.Error("said by a subtest that fails") })
}

func TestPanics(t *testing.T) {
	t.Log("said before the panic")
	panic("boom")
}
