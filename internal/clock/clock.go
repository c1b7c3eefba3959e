// Package clock is the clock of deadlines on the holder's machine. It counts the
// time that the machine sleeps.
package clock

import "time"

// sleepDetector makes a clock that counts suspension out of a monotonic clock that
// does not and a wall clock that does: if the wall clock got ahead, the machine
// slept, or somebody set the clock. Both make a holder give up early. A wall clock
// that is set back changes nothing.
type sleepDetector struct {
	mono, wall time.Duration // at the last look
	slept      time.Duration
}

// tolerance is how far the wall clock may get ahead between two looks without
// counting as sleep: it is slewed all the time.
const tolerance = 10 * time.Millisecond

func (d *sleepDetector) look(mono, wall time.Duration) time.Duration {
	if gap := (wall - d.wall) - (mono - d.mono); gap > tolerance {
		d.slept += gap
	}
	d.mono, d.wall = mono, wall
	return mono + d.slept
}
