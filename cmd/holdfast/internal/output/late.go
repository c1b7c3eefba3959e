package output

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// keep is how long the waiter's place is kept each time that it asks for it. A fair one is
// kept for driver.DefaultKeep, the others for driver.MaxKeep, unless they work under other
// locks. If what is left shows neither, this machine's clock decides.
func keep(p holdfast.Place, now time.Time) time.Duration {
	const between = (driver.DefaultKeep + driver.MaxKeep) / 2
	if !p.Fair && (p.Left > driver.DefaultKeep || now.Sub(p.Asked)+p.Left > between) {
		return driver.MaxKeep
	}
	return driver.DefaultKeep
}

// Age returns how long the waiter has waited, by the store's clock.
func Age(p holdfast.Place, now time.Time) time.Duration {
	return p.Asked.Sub(p.Since) + sinceAsked(p, now)
}

// sinceAsked returns how long ago the waiter last asked for its place, by the store's clock.
func sinceAsked(p holdfast.Place, now time.Time) time.Duration {
	return max(keep(p, now)-p.Left, 0)
}

// Late returns how long ago the waiter last asked for its place, and whether that is longer
// than waiters take that live. These ask four times while a place is kept, and the store
// notes every second request at least.
func Late(p holdfast.Place, now time.Time) (asked time.Duration, late bool) {
	asked = sinceAsked(p, now).Truncate(time.Second)
	return asked, asked >= keep(p, now)*6/10
}
