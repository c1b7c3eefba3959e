package waitline

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

const (
	// pollFirst is the first pause if the store sends no signals.
	pollFirst = 10 * time.Millisecond
	// watchFirst and watchLimit are the pauses if the store sends signals, in case one is
	// lost. They do not delay the wait for a holder that died, because the end of its hold is
	// known.
	watchFirst = 5 * time.Second
	watchLimit = 10 * time.Second
	// askAtLeast is how often a fair place is asked for: three requests in a row may get
	// lost.
	askAtLeast = driver.FairPlaceTTL / 4
	// nearHead is how many departures before its own turn a waiter begins to ask at each
	// signal, in case some of the others do not come.
	nearHead = 3
	// askFirst is how soon the first waiter of the store's queue asks without a signal, in
	// case one got lost. Later waiters take a multiple of it.
	askFirst = 30 * time.Millisecond
	// askFull is the average pause after the queue has been full for long.
	askFull = 10 * time.Second
	// wakeInterval is the time between the moments at which waiters ask in case a signal got
	// lost. Waking the process costs many times as much as an attempt, so all attempts that
	// are due share a moment. The moments differ between processes.
	wakeInterval = time.Second

	never = storecall.Never
)

// pace decides when a waiter asks again.
type pace struct {
	retries, polls, lookouts backoff.Backoff

	departures int           // how many holds and places had to go before its turn, at the last refusal
	pause      time.Duration // the pause without a signal
	tries      int           // attempts since then
	skip       int           // how many signals to ignore before it asks
	full       time.Duration // the pause while the queue is full
}

// pause returns the pause of the waiter after a refusal. ls.mu is held.
func (l *line) pause(w *Waiter, e *driver.HeldError, now time.Duration) time.Duration {
	ls := l.ls
	switch {
	case w.tried && !w.carried:
		return 0 // it has a place and must ask with it
	case l.head != w && w.tried:
		return w.Kind.placeTTL() / 4 // it keeps its place
	case l.head != w:
		return never
	}
	l.others = max(e.Position-l.placesBefore(w), 0)
	p := w.paces()
	if l.sub != nil && l.sub.begins { // the head is invited when the subscription has begun
		return hint(e)
	}
	pause, soonest, most := p.polls.Next(), min(pollFirst, ls.Poll), ls.Poll
	if l.sub != nil && l.sub.signals != nil {
		soonest, most = askFirst, askAtLeast
		// A hint of 0 means no hint, or a time too short for the store to return.
		if e.RetryAfter != 0 {
			pause = (now + p.lookouts.Next()).Truncate(wakeInterval) + wakeInterval - now
		}
	}
	pause = p.nextPause(w.Kind, w.carried, e, pause, soonest, most)
	return min(pause, hint(e), l.untilPlace(w, now))
}

func (w *Waiter) paces() *pace {
	if w.pace == nil {
		w.pace = &pace{polls: backoff.New(pollFirst, w.ls.Poll), lookouts: backoff.New(watchFirst, watchLimit)}
	}
	return w.pace
}

// nextPause notes a refusal and returns the pause before the next attempt, unless a signal
// comes earlier. otherwise is the pause of a waiter that is next. first and most are the
// shortest and longest pause of the first waiter of the store's queue.
//
// A waiter counts the holds and the places before it, and each signal takes one away. So only
// the first few of all waiters ask at each signal, and no waiter depends on hearing all of
// them: the pause is short while the queue moves, and doubles while it does not.
func (p *pace) nextPause(k Kind, placed bool, e *driver.HeldError, otherwise, first, most time.Duration) time.Duration {
	p.skip = 0
	position := min(e.Position, driver.MaxPlaces)
	full := queueFull(e)
	if !full {
		p.full = 0
	}
	switch {
	case !placed, e.BySelf: // there is no place
		return otherwise
	case full:
		// Signals are for the waiters with places. Their turn may be over soon, but it is not
		// known how many others have no place: the pauses get longer.
		p.skip = math.MaxInt
		p.full = max(min(4*p.full, askFull), 2*time.Second)
		return p.full/2 + rand.N(p.full)
	case position < 0: // the store could not write the place
		return min(otherwise, askAtLeast/8+rand.N(askAtLeast/4))
	case position == 0 && !k.Fair:
		return min(otherwise, k.placeTTL()/4)
	}
	ahead, departures := position, position+len(e.Holders)
	switch {
	case k.Limit > 0:
		departures = max(departures-k.Limit+1, 1)
		ahead = (departures - 1) / k.Limit // as many are granted at a time
	case k.Mode == driver.Shared:
		ahead = 0 // readers that are ahead will share the resource with it
		for _, place := range e.Ahead {
			if place.Mode == driver.Exclusive {
				ahead++
			}
		}
		departures = ahead + 1
	}
	switch {
	case p.pause == 0 || departures != p.departures:
		p.departures, p.pause, p.tries = departures, first*time.Duration(ahead+1), 0
	case p.tries >= 2: // until then the pause may have been a little too short
		p.pause *= 2
	}
	p.tries++
	p.pause = min(p.pause, most*time.Duration(ahead+1), askAtLeast)
	p.skip = max(departures-nearHead-departures/8, 0) // some signals get lost
	return p.pause
}

// queueFull reports whether the queue was full.
func queueFull(e *driver.HeldError) bool { return e.Position < 0 && e.Waiters >= driver.MaxPlaces }

// signalled reports whether a signal is worth an attempt.
func (p *pace) signalled() bool {
	if p.skip == 0 {
		return true
	}
	if p.skip != math.MaxInt {
		p.skip--
	}
	return p.skip == 0
}

// hint returns how long after a refusal the resource may become free although nobody releases
// it, or never if the refusal does not say so or others are served first: the expiry of a
// dead holder's hold must not wake all waiters. It counts from the arrival of the answer, so
// it is late rather than early. The extra millisecond covers the rounding by the store.
func hint(e *driver.HeldError) time.Duration {
	if e.OnlyAhead() && e.Ahead[0].Left > 0 && e.Position < nearHead {
		return e.Ahead[0].Left + time.Millisecond // its waiter may be gone
	}
	if e.RetryAfter <= 0 || e.RetryAfter > driver.MaxTTL || e.Position >= nearHead || queueFull(e) {
		return never
	}
	return e.RetryAfter + time.Millisecond
}
