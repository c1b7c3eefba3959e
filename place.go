package holdfast

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Client has at most one place in the store's queue of a resource: that of the
// acquirer at the head of its own queue. If that one gives up, the next one inherits the
// place, so a thousand goroutines cost the store as much as one.

const (
	// placeAfter is how long the head of a Client's queue waits before it takes a place.
	// Most locks are held for a shorter time, and nobody needs to see who waits for them.
	placeAfter = time.Second
	// askAtLeast is how often a fair place is asked for: three requests in a row may get
	// lost.
	askAtLeast = driver.FairPlaceTTL / 4
	// nearHead is how many departures before its own turn a waiter tries at each signal,
	// in case some of the others do not come.
	nearHead = 3
	// askFirst is how soon the first in the store's queue tries without a signal, in case
	// one got lost. Those behind it take a multiple of it.
	askFirst = 30 * time.Millisecond
	// askFull is the average retry interval when the queue has been full for long.
	askFull = 10 * time.Second
)

// storedPlace is a place in the store's queue, and what inherits it.
type storedPlace struct {
	id    driver.PlaceID // zero: none
	mode  Mode
	fair  bool
	limit int
}

func (a *acquirer) placeFor(id driver.PlaceID) storedPlace {
	return storedPlace{id: id, mode: a.q.Mode, limit: a.q.Limit, fair: a.q.Fair}
}

// usePlace gives the next attempt of the acquirer the place of its queue, if it is the
// first there. c.mu is held.
func (c *Client) usePlace(l *queue, a *acquirer, now time.Duration) {
	a.q.Place = driver.PlaceID{}
	if l.first != a {
		return
	}
	if l.stored.id.IsZero() {
		if !a.q.Fair && now-l.headSince < placeAfter || !c.store.Traits().Queue {
			return
		}
		l.stored = a.placeFor(driver.NewPlaceID())
	}
	if l.stored == a.placeFor(l.stored.id) {
		a.q.Place = l.stored.id
	}
}

// passPlace decides what becomes of the queue's place as an acquirer leaves: its grant
// took the place out of the store's queue; else the next one inherits it, or it is given
// up. c.mu is held.
func (c *Client) passPlace(l *queue, a *acquirer, first, granted bool) {
	id := l.stored.id
	switch {
	case id.IsZero():
	case granted && a.q.Place == id:
		c.retirePlace(l)
	case first && (l.first == nil || l.stored != l.first.placeFor(id)):
		c.retirePlace(l)
		c.work.Add(1) // the caller is an operation that Close waits for
		ref := driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID}
		go c.leave(ref, id)
	}
}

// retirePlace forgets a place that nobody will ask for again. Attempts that are still on
// their way would take it again: what cleans up after them takes it out, if it stops
// others. c.mu is held.
func (c *Client) retirePlace(l *queue) {
	for _, id := range l.strays {
		if l.stored.fair {
			c.cleanPlace(id, l.stored.id)
		}
	}
	l.stored, l.strays = storedPlace{}, nil
}

// strayFrom notes that an attempt with a place was given up. c.mu is not held.
func (c *Client) strayFrom(q driver.AcquireRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.queues[q.Resource]
	if !ok || q.Place.IsZero() || l.stored.id != q.Place {
		return
	}
	l.strays = slices.DeleteFunc(l.strays, func(id HoldID) bool { return c.cleaner.orphans[id] == nil })
	l.strays = append(l.strays, q.HoldID)
	c.queues[q.Resource] = l
}

// leave gives up a place. If the store does not answer, the place ends by itself.
func (c *Client) leave(ref driver.HoldRef, id driver.PlaceID) {
	defer c.work.Done()
	_ = c.releaseOne(context.Background(), driver.ReleaseRequest{HoldRef: ref, Place: id}, c.clock()+driver.FairPlaceTTL)
}

// retryPacer decides when a waiter tries again.
type retryPacer struct {
	departures int           // that had to come before its turn, when it was refused last
	pause      time.Duration // without a signal
	tries      int           // since then
	skip       int           // signals to wait for before it tries
	full       time.Duration // the pause if the queue was full
}

// nextPause notes a refusal, and returns the pause before the next attempt, unless a
// signal comes before. otherwise is the pause of a waiter that nobody is ahead of, first
// the shortest of the first in the store's queue, and most its longest.
//
// A waiter counts the holds and the places before it, and a signal takes one away. So of
// all that wait only the first few try at each signal, and nobody depends on hearing all
// of them: the pause is short where the queue moves, and doubles while it does not.
func (s *retryPacer) nextPause(q *driver.AcquireRequest, e *HeldError, otherwise, first, most time.Duration) time.Duration {
	s.skip = 0
	position := min(e.Position, driver.MaxPlaces)
	full := hadNoRoom(e)
	if !full {
		s.full = 0
	}
	switch {
	case q.Place.IsZero(), e.BySelf: // that gives no place
		return otherwise
	case full:
		// Signals are for those that have places. Their turn may be over soon, but it is not
		// known how many others have none: the pauses get longer.
		s.skip = math.MaxInt
		s.full = max(min(4*s.full, askFull), 2*time.Second)
		return s.full/2 + rand.N(s.full)
	case position < 0: // the store refused, but could not write the place
		return min(otherwise, askAtLeast/8+rand.N(askAtLeast/4))
	case position == 0 && !q.Fair:
		return min(otherwise, q.PlaceTTL()/4)
	}
	ahead, departures := position, position+len(e.Holders)
	switch {
	case q.Limit > 0:
		departures = max(departures-q.Limit+1, 1)
		ahead = (departures - 1) / q.Limit // so many go in at a time
	case q.Mode == Shared:
		ahead = 0 // readers ahead will share it with this one
		for _, p := range e.Ahead {
			if p.Mode == Exclusive {
				ahead++
			}
		}
		departures = ahead + 1
	}
	switch {
	case s.pause == 0 || departures != s.departures:
		s.departures, s.pause, s.tries = departures, first*time.Duration(ahead+1), 0
	case s.tries >= 2: // until then the pause may have been a little too short
		s.pause *= 2
	}
	s.tries++
	s.pause = min(s.pause, most*time.Duration(ahead+1), askAtLeast)
	s.skip = max(departures-nearHead-departures/8, 0) // some signals get lost
	return s.pause
}

// hadNoRoom reports whether the queue was full.
func hadNoRoom(e *HeldError) bool { return e.Position < 0 && e.Waiters >= driver.MaxPlaces }

// signalled reports whether a signal is worth an attempt.
func (s *retryPacer) signalled() bool {
	if s.skip == 0 {
		return true
	}
	if s.skip != math.MaxInt {
		s.skip--
	}
	return s.skip == 0
}

// hint returns how long after a refusal the resource may be free although nobody
// releases it, or never if the refusal does not say so or others come first: the end of a
// dead holder must not wake all that wait.
func hint(e *HeldError) time.Duration {
	if e.RetryAfter <= 0 || e.RetryAfter > MaxTTL || e.Position >= nearHead || hadNoRoom(e) {
		return never
	}
	// The hint counts from the store's answer, so this is rather late than early. The ms
	// covers what the store rounds off.
	return e.RetryAfter + time.Millisecond
}

// untilPlace returns how long until the acquirer takes a place, if it has none and is the
// first of its queue.
func (c *Client) untilPlace(a *acquirer) time.Duration {
	if !a.q.Place.IsZero() || !c.store.Traits().Queue {
		return never
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.queues[a.q.Resource]
	if l.first != a || !l.stored.id.IsZero() {
		return never
	}
	return max(l.headSince+placeAfter-c.clock(), time.Millisecond)
}
