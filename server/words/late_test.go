package words

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// The store returns when a waiter last asked, and for how long its place is kept, by its
// own clock. That shows for how long it is kept each time, and whether the waiter is late.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		left, ago time.Duration // ago: when it asked
		late      bool
	}{
		{10 * time.Second, 0, false},
		{5 * time.Second, 5 * time.Second, false},
		{4 * time.Second, 6 * time.Second, true},
		{55 * time.Second, 5 * time.Second, false},
		{30 * time.Second, 30 * time.Second, false},
		{24 * time.Second, 36 * time.Second, true},
		{24*time.Second + time.Millisecond, 36 * time.Second, true}, // a server rounds up
		{8 * time.Second, 52 * time.Second, true},
		{driver.Unknown, 52 * time.Second, false},
	} {
		asked := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
		p := driver.Place{Asked: asked, Seen: asked.Add(c.ago + time.Millisecond), Left: c.left}
		if got, late := Late(p); got.Truncate(time.Second) != c.ago || late != c.late {
			t.Errorf("%+v: asked %v ago, late: %v", c, got, late)
		}
		p.Seen = time.Time{}
		if got, late := Late(p); got != driver.Unknown || late {
			t.Errorf("%+v: when it asked is not known, but it did %v ago, late: %v", c, got, late)
		}
	}
}
