// Package broken has one test of each outcome.
package broken

import "testing"

func TestPasses(t *testing.T) {
	t.Log("said by a test that passes")
	t.Run("subtest", func(*testing.T) {})
}

func TestFails(t *testing.T) { t.Error("said by a test that fails") }

func TestSkipped(t *testing.T) { t.Skip("no server: install one") }

func TestSkippedToo(t *testing.T) { t.Skip("no server: install one") }

func TestPanics(t *testing.T) {
	t.Log("said before the panic")
	panic("boom")
}
