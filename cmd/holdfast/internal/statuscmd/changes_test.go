package statuscmd

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

func TestChanges(t *testing.T) {
	born := time.Now()
	a := holdfast.Status{Resource: "a", LockID: "lock a", HoldID: driver.NewHoldID(), Left: time.Hour, Created: born}
	changed := func(change func(*holdfast.Status)) bool {
		b := a
		change(&b)
		return !reflect.DeepEqual(settle([]holdfast.Status{a}, nil), settle([]holdfast.Status{b}, nil))
	}
	for name, change := range map[string]func(*holdfast.Status){
		"time passes":   func(s *holdfast.Status) { s.Left = time.Minute },
		"it is renewed": func(s *holdfast.Status) { s.Renewed = born },
	} {
		if changed(change) {
			t.Errorf("%s: a change", name)
		}
	}
	p := holdfast.Place{Resource: "a", LockID: "waiter", Since: born, Asked: born, Left: time.Second}
	later := p
	later.Asked, later.Left, later.Position = born.Add(time.Second), time.Minute, 1
	waits := func(places ...holdfast.Place) settled {
		return settle([]holdfast.Status{a}, output.QueuesOf(places))
	}
	if !reflect.DeepEqual(waits(p), waits(later)) {
		t.Error("a waiter asks again: a change")
	}
	another, fair := p, p
	another.Since, fair.Fair = born.Add(time.Millisecond), true
	if reflect.DeepEqual(waits(), waits(p)) || reflect.DeepEqual(waits(p), waits(another)) || reflect.DeepEqual(waits(p), waits(fair)) || !reflect.DeepEqual(waits(), settle([]holdfast.Status{a}, nil)) {
		t.Error("a waiter comes: no change")
	}
	for name, change := range map[string]func(*holdfast.Status){
		"retaken":         func(s *holdfast.Status) { s.HoldID = driver.NewHoldID() },
		"past its end":    func(s *holdfast.Status) { s.Left = 0 },
		"without an end":  func(s *holdfast.Status) { s.Left = holdfast.Forever },
		"released":        func(s *holdfast.Status) { s.Released = true },
		"another comment": func(s *holdfast.Status) { s.Comment = "x" },
	} {
		if !changed(change) {
			t.Errorf("%s: no change", name)
		}
	}
}
