package words

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// endlessPeriod is how often a Client renews a hold without an end.
	endlessPeriod = 30 * time.Second
	// latest is how late a renewal may be on a busy machine.
	latest = 500 * time.Millisecond
)

// Pulse is what a hold's times say of its holder.
type Pulse struct {
	// Silent is the time since the last renewal, or the grant; driver.Unknown if the store
	// does not say.
	Silent time.Duration
	Missed int // renewals
}

// PulseOf returns the pulse. What a hold has left, and how long ago it was renewed, make the
// TTL; Clients renew when a third of it has passed, and every 30 s if it has no end. Of a hold
// that was never renewed nobody knows whether it is to be.
func PulseOf(h driver.Status) Pulse {
	silent := h.RenewedAgo()
	if silent == driver.Unknown { // never
		silent = h.Age()
	}
	p := Pulse{Silent: silent}
	period := endlessPeriod
	switch {
	case silent == driver.Unknown || h.Left == driver.Unknown || h.Left == 0 || h.Released:
		return p
	case h.Left != driver.Forever:
		period = (h.Left + silent) / 3
	}
	if period > 0 {
		p.Missed = int(max(silent-max(period/10, latest), 0) / period) // a little late is not missed
	}
	return p
}

// Gone reports whether the holder has renewed the hold before, and missed two renewals since,
// or whether the hold has no end and nobody renews it.
func Gone(h driver.Status) bool {
	return PulseOf(h).Missed >= 2 && (h.Left == driver.Forever || !h.Renewed.IsZero())
}
