package look

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestMarks(t *testing.T) {
	born := time.Now()
	a := holdfast.Status{Resource: "a", LockID: "lock a", HoldID: driver.NewHoldID(), Left: time.Hour, Created: born}
	changed := func(change func(*holdfast.Status)) bool {
		b := a
		change(&b)
		return !slices.Equal(marks([]holdfast.Status{a}), marks([]holdfast.Status{b}))
	}
	for name, change := range map[string]func(*holdfast.Status){
		"time passes":   func(s *holdfast.Status) { s.Left = time.Minute },
		"it is renewed": func(s *holdfast.Status) { s.Renewed = born },
	} {
		if changed(change) {
			t.Errorf("%s: a change", name)
		}
	}
	for name, change := range map[string]func(*holdfast.Status){
		"retaken":         func(s *holdfast.Status) { s.HoldID = driver.NewHoldID() },
		"past its end":    func(s *holdfast.Status) { s.Left = 0 },
		"without an end":  func(s *holdfast.Status) { s.Left = holdfast.Forever },
		"released":        func(s *holdfast.Status) { s.Released = true },
		"waited for":      func(s *holdfast.Status) { s.Waited = born },
		"another comment": func(s *holdfast.Status) { s.Comment = "x" },
	} {
		if !changed(change) {
			t.Errorf("%s: no change", name)
		}
	}
}
