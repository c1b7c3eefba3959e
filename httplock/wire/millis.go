package wire

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Millis is a duration in milliseconds. Forever is -1. Where a duration may be unknown, a
// pointer is null.
type Millis int64

// Forever is the duration that never ends.
const Forever Millis = -1

const maxMillis = Millis(driver.MaxTTL / time.Millisecond)

// Duration returns the duration. A value out of range becomes an invalid duration.
func (m Millis) Duration() time.Duration {
	switch {
	case m == Forever:
		return driver.Forever
	case m < 0:
		m = max(m, -maxMillis)
	case m > maxMillis:
		return driver.MaxTTL + time.Millisecond
	}
	return time.Duration(m) * time.Millisecond
}

// MillisOf returns whole milliseconds, rounded down, for the time that a holder has left.
func MillisOf(d time.Duration) Millis {
	if d == driver.Forever {
		return Forever
	}
	return Millis(max(d, 0) / time.Millisecond)
}

// MillisUp is like MillisOf, but rounds up, for the time that others have to wait.
func MillisUp(d time.Duration) Millis {
	m := MillisOf(d)
	if m != Forever && m.Duration() < d {
		m++
	}
	return m
}

// known returns nil for driver.Unknown.
func known(d time.Duration, of func(time.Duration) Millis) *Millis {
	if d == driver.Unknown {
		return nil
	}
	m := of(d)
	return &m
}

// left returns driver.Unknown for nil.
func left(m *Millis) time.Duration {
	if m == nil {
		return driver.Unknown
	}
	return m.Duration()
}
