package fitness

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/server/fit"
)

const (
	// pairs is how many pairs of acquire and release are measured, or as many as fit
	// into measureTime, but at least minPairs. The same is true for hand-overs.
	pairs, minPairs = 20, 3
	handOvers       = 5
	measureTime     = 2 * time.Second
	// unaided is how long a hand-over takes at least if a wake-up is lost: a Client that
	// expects wake-ups tries by itself only after 1 s, when it takes a place in the queue,
	// or after 2.5 s without a queue. Some of that may pass before the release.
	unaided = 700 * time.Millisecond
	// farOff is the difference between clocks that is worth a warning.
	farOff = time.Second
)

// Offset is how far a store's clock is ahead of this machine's, negative if it is
// behind, give or take half the round trip in which it was read.
type Offset struct {
	Ahead, GiveOrTake time.Duration
}

// offset compares a time of the store's clock with the times of this machine's clock
// before and after it.
func offset(store, before, after time.Time) Offset {
	half := after.Sub(before) / 2
	return Offset{Ahead: store.Sub(before) - half, GiveOrTake: half}
}

// clock adds the finding of how far the store's clock is off, given when a hold was
// granted.
func (c *check) clock(created, before, after time.Time) {
	if !c.Traits.ServerClock || created.IsZero() {
		c.say("offset", fit.Note, "the store has no clock, or does not return it")
		return
	}
	o := offset(created, before, after)
	c.Clock = &o
	ahead, direction := o.Ahead, "ahead of"
	if ahead < 0 {
		ahead, direction = -ahead, "behind"
	}
	const text = "the store's clock is %v %s this machine's, give or take %v"
	if ahead-o.GiveOrTake <= farOff {
		c.say("offset", fit.OK, text, measure.Round(ahead), direction, measure.Round(o.GiveOrTake))
		return
	}
	c.say("offset", fit.Warn, text+". No lock depends on it, but the dates that status shows do; set whichever is wrong",
		measure.Round(ahead), direction, measure.Round(o.GiveOrTake))
}

// roundTrips measures what a lock costs, and says which TTLs that allows.
func (c *check) roundTrips(ctx context.Context) bool {
	pair, renewal := measure.NewSamples(), measure.NewSamples()
	var slowest time.Duration
	timed := func(f func() error) (time.Duration, error) {
		began := time.Now()
		err := f()
		took := time.Since(began)
		slowest = max(slowest, took)
		return took, err
	}
	began := time.Now()
	for n := range pairs {
		if n >= minPairs && time.Since(began) > measureTime {
			break
		}
		var hold *holdfast.Hold
		acquired, err := timed(func() (err error) { hold, err = c.acquire(ctx, c.mine); return err })
		if err != nil {
			return c.failed("round-trip", "no lock can be acquired", err)
		}
		renewed, err := timed(func() error { return c.renew(ctx, hold) })
		if err != nil {
			return c.failed("round-trip", "a lock cannot be renewed", err)
		}
		released, err := timed(func() error { return hold.Unlock(ctx) })
		if err != nil {
			return c.failed("round-trip", "a lock cannot be released", err)
		}
		pair.Add(acquired + released)
		renewal.Add(renewed)
	}
	c.Pair, c.Renewal, c.TTL = pair, renewal, fit.SensibleTTL(slowest)
	c.say("round-trip", fit.OK, "acquire and release take %v, a renewal %v (at most %v and %v, of %d)",
		median(pair), median(renewal), measure.Round(pair.Max()), measure.Round(renewal.Max()), pair.Count())
	if c.TTL > holdfast.DefaultTTL {
		return c.say("ttl", fit.Warn, "the store is slow: give --ttl %v or more, because the default of %v is too short", c.TTL, holdfast.DefaultTTL)
	}
	return c.say("ttl", fit.OK, "the shortest --ttl that makes sense is %v", c.TTL)
}

func median(s *measure.Samples) time.Duration { return measure.Round(s.Quantile(0.5)) }

// wakeUps measures how soon a waiter gets a lock that was released.
func (c *check) wakeUps(ctx context.Context) bool {
	// It takes several round trips before the waiter waits, and two after.
	limit := stepTime + 10*c.Pair.Max()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	took, err := measure.HandOvers(ctx, c.open, c.resource, func(n int64, spent time.Duration) bool {
		return n < handOvers && spent < measureTime
	})
	if err != nil && !errors.Is(err, holdfast.ErrHeld) {
		return c.failed("wake-ups", "a lock cannot be handed over", err)
	}
	if err != nil {
		return c.say("wake-ups", fit.Fail, "a waiter did not get a released lock within %v", measure.Round(limit))
	}
	c.HandOver = took
	handedOver := median(took)
	switch {
	case !c.Traits.Notifies:
		return c.say("wake-ups", fit.Note, "there are none; a waiter gets a released lock after %v", handedOver)
	case took.Quantile(0.5)-c.Pair.Max() >= unaided: // unless the store is just slow
		return c.say("wake-ups", fit.Warn, "none came: the waiter detected the release by polling, after %v", handedOver)
	}
	return c.say("wake-ups", fit.OK, "a waiter gets a released lock after %v", handedOver)
}
