package adapt

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// A late caller that reports an earlier loss does not prevent the report of the next one.
func TestEachLossIsTold(t *testing.T) {
	first, second := new(holdfast.Hold), new(holdfast.Hold)
	n, l := new(Names), &held{hold: first}
	if !n.tell(l, first) || n.tell(l, first) {
		t.Error("the first loss is not reported exactly once")
	}
	l.hold, l.told = second, false
	if n.tell(l, first) || !n.tell(l, second) {
		t.Error("the second loss is not reported")
	}
}

// Nothing is kept of a turn that no caller has or wants.
func TestTurnsAreDropped(t *testing.T) {
	c := holdfast.New(memlock.New(nil), nil)
	defer c.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, err := takeTurn(t.Context(), c, "r", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []bool{true, false} {
		if _, err := takeTurn(ended, c, "r", wait); err == nil {
			t.Error("two callers have the turn")
		}
	}
	if _, _, err := lockInTurn(t.Context(), c, "", nil, false); err == nil {
		t.Error("a resource without a name is locked")
	}
	if len(turns.of) != 1 {
		t.Errorf("there are %d turns", len(turns.of))
	}
	first.end()
	if len(turns.of) != 0 {
		t.Errorf("%d turns are kept", len(turns.of))
	}
}
