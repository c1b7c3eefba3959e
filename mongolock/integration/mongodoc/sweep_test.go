package mongodoc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// A sweep with a limit of records deletes no more, and reports that it stopped.
func TestSweepsOfValueAreBounded(t *testing.T) {
	coll := newCollection(t)
	clock := engines.NewMongoClock(t, coll.Database())
	if !clock.Set() {
		t.Skip("the clock of a real server cannot be set")
	}
	s := start(t, mongodoc.NewValue(coll))
	const idle, most = 12, 5
	for i := range idle {
		ask.Released(t, s, ask.Granted(t, s, ask.Request(fmt.Sprint("idle ", i), "a")), 0)
	}
	ask.Granted(t, s, ask.Request("live", "a"))
	if err := clock.Pass(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	for turn, want := range []driver.SweepResult{{Records: most, More: true}, {Records: most, More: true}, {Records: idle - 2*most}, {}} {
		got, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Minute, Most: most})
		if err != nil || got != want {
			t.Errorf("sweep %d: %+v, error %v, want %+v", turn, got, err, want)
		}
	}
	if n := len(list(t, s, driver.Filter{})); n != 1 {
		t.Errorf("list shows %d holds, want the live one", n)
	}
}
