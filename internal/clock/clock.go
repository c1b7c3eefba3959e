// Package clock provides the clock of deadlines on the holder's machine. It counts the time
// that the machine sleeps.
package clock

import "time"

// sleepDetector is a clock that counts the suspension of the machine, made of a monotonic
// clock that does not count it and a wall clock that does: if the wall clock gets ahead, the
// machine slept or somebody set the clock. Both make a holder give up early. A wall clock
// that is set back changes nothing.
type sleepDetector struct {
	mono, wall time.Duration // at the last reading
	slept      time.Duration
}

// tolerance is how far the wall clock may get ahead between two readings without counting as
// sleep: it is slewed all the time.
const tolerance = 10 * time.Millisecond

func (d *sleepDetector) look(mono, wall time.Duration) time.Duration {
	if gap := (wall - d.wall) - (mono - d.mono); gap > tolerance {
		d.slept += gap
	}
	d.mono, d.wall = mono, wall
	return mono + d.slept
}
