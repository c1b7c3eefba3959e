package words

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Late returns how long ago the waiter last asked for its place, and whether that is longer
// than waiters take that live. These ask four times while a place is kept, and the store
// notes every second request at least.
func Late(p driver.Place) (asked time.Duration, late bool) {
	asked = p.AskedAgo()
	if asked == driver.Unknown || p.Left == driver.Unknown {
		return asked, false
	}
	kept := (asked + p.Left).Round(time.Second) // each time that it asks
	asked = asked.Truncate(time.Second)
	return asked, asked >= kept*6/10
}
