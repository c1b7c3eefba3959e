package server

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// How long the head of a line waits before it asks again, if nothing else tells it to.
const (
	// pollFirst and pollLimit: where the store sends no signal.
	pollFirst, pollLimit = 10 * time.Millisecond, 500 * time.Millisecond
	// watchFirst and watchLimit: where it does, in case one is missed.
	watchFirst, watchLimit = 5 * time.Second, 10 * time.Second
	// retryFirst and retryLimit: after an attempt without an answer.
	retryFirst, retryLimit = 10 * time.Millisecond, time.Second
	// askFirst is how soon the first in the store's queue asks without a signal. Those
	// behind it take a multiple of that. nearHead is how many departures before its own turn
	// a fair waiter asks at each signal.
	askFirst = 30 * time.Millisecond
	nearHead = 3
	// askFull is how soon, on average, a waiter asks for whom the queue has no place.
	askFull = 10 * time.Second
	// never is a pause that only an invitation ends.
	never = time.Duration(math.MaxInt64)
)

// retryPacer decides when a waiter with a place in the store's queue asks again. It counts the holds
// and the places before it, and a signal takes one away: of all that wait, at this server
// and elsewhere, only the first few ask at each signal.
type retryPacer struct {
	departures int // that had to come before its turn, when it was refused last
	pause      time.Duration
	tries      int // since then
	skip       int // signals to wait for
}

// nextPause notes a refusal and returns the pause, unless a signal comes before. otherwise is
// the pause of a waiter that nobody is ahead of.
func (p *retryPacer) nextPause(q *driver.AcquireRequest, e *driver.HeldError, otherwise time.Duration) time.Duration {
	p.skip = 0
	switch {
	case q.Place.IsZero():
		return otherwise
	case hadNoRoom(e):
		p.skip = math.MaxInt // signals are for those that have places
		return askFull/2 + rand.N(askFull)
	case e.Position <= 0:
		return min(otherwise, q.PlaceTTL()/4)
	}
	ahead, departures := e.Position, e.Position+len(e.Holders)
	switch {
	case q.Limit > 0:
		departures = max(departures-q.Limit+1, 1)
		ahead = (departures - 1) / q.Limit // so many go in at a time
	case q.Mode == driver.Shared:
		ahead = 0 // readers ahead will share it with this one
		for _, place := range e.Ahead {
			if place.Mode == driver.Exclusive {
				ahead++
			}
		}
		departures = ahead + 1
	}
	switch {
	case p.pause == 0 || departures != p.departures:
		p.departures, p.pause, p.tries = departures, askFirst*time.Duration(ahead+1), 0
	case p.tries >= 2:
		p.pause = min(2*p.pause, driver.FairPlaceTTL/4)
	}
	p.tries++
	p.skip = max(departures-nearHead-departures/8, 0) // some signals get lost
	return min(p.pause, driver.FairPlaceTTL/4)
}

// hadNoRoom reports whether the queue was full.
func hadNoRoom(e *driver.HeldError) bool {
	return e.Position == driver.NoPlace && e.Waiters >= driver.MaxPlaces
}

// signalled reports whether a signal is worth an attempt.
func (p *retryPacer) signalled() bool {
	if p.skip == 0 {
		return true
	}
	if p.skip != math.MaxInt {
		p.skip--
	}
	return p.skip == 0
}

// hint returns how long after a refusal the resource may be free although nobody releases
// it, or never if the refusal does not say so or others come first.
func hint(e *driver.HeldError) time.Duration {
	if e.OnlyAhead() && e.Ahead[0].Left > 0 && e.Position < nearHead {
		return e.Ahead[0].Left + time.Millisecond // its waiter may be gone
	}
	if e.RetryAfter <= 0 || e.RetryAfter > driver.MaxTTL || e.Position >= nearHead || hadNoRoom(e) {
		return never
	}
	return e.RetryAfter + time.Millisecond // what the store rounds off
}
