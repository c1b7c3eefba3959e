package fitness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
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

// clock adds the finding of how far the store's clock is off, given when a hold was granted,
// and times of this machine's clock before and after it.
func (c *check) clock(created, before, after time.Time) {
	if !c.Traits.ServerClock || created.IsZero() {
		c.say("offset", Note, "the store has no clock, or does not return it")
		return
	}
	half := after.Sub(before) / 2
	off := created.Sub(before) - half
	c.ClockAheadMs, c.ClockUncertaintyMs = new(milliseconds(off)), new(milliseconds(half))
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	text, result := "", OK
	if off.Abs()-half > farOff {
		text, result = ". No lock depends on it, but the dates that status shows do; set whichever is wrong", Warn
	}
	c.say("offset", result, "the store's clock is %v %s this machine's, give or take %v%s", round(off.Abs()), direction, round(half), text)
}

// roundTrips measures what a lock costs, and says which TTLs that allows.
func (c *check) roundTrips(ctx context.Context) bool {
	var pair, renewal, all Samples
	for began := time.Now(); len(pair) < pairs && (len(pair) < minPairs || time.Since(began) <= measureTime); {
		var hold *holdfast.Hold
		times := []time.Time{time.Now()}
		for what, f := range []func() error{
			func() (err error) { hold, err = c.acquire(ctx, c.mine); return err },
			func() error { return c.renew(ctx, hold) },
			func() error { return hold.Unlock(ctx) },
		} {
			if err := f(); err != nil {
				return c.failed("round-trip", "a lock cannot be "+[...]string{"acquired", "renewed", "released"}[what], err)
			}
			times = append(times, time.Now())
			all = append(all, times[what+1].Sub(times[what]))
		}
		pair = append(pair, times[1].Sub(times[0])+times[3].Sub(times[2]))
		renewal = append(renewal, times[2].Sub(times[1]))
	}
	c.Pair, c.Renewal, c.ttl = pair, renewal, sensibleTTL(all.Quantile(1))
	c.ShortestTTLMs = new(c.ttl.Milliseconds())
	c.say("round-trip", OK, "acquire and release take %v, a renewal %v (at most %v and %v, of %d)",
		median(pair), median(renewal), longest(pair), longest(renewal), len(pair))
	if c.ttl > holdfast.DefaultTTL {
		return c.say("ttl", Warn, "the store is slow: give --ttl %v or more, because the default of %v is too short", c.ttl, holdfast.DefaultTTL)
	}
	return c.say("ttl", OK, "the shortest --ttl that makes sense is %v", c.ttl)
}

func longest(s Samples) time.Duration { return round(s.Quantile(1)) }

func median(s Samples) time.Duration { return round(s.Quantile(0.5)) }

// wakeUps measures how soon a waiter gets a lock that was released.
func (c *check) wakeUps(ctx context.Context) bool {
	// It takes several round trips before the waiter waits, and two after.
	limit := stepTime + 10*c.Pair.Quantile(1)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	took, err := c.handOvers(ctx)
	if err != nil && !errors.Is(err, holdfast.ErrHeld) {
		return c.failed("wake-ups", "a lock cannot be handed over", err)
	}
	if err != nil {
		return c.say("wake-ups", Fail, "a waiter did not get a released lock within %v", round(limit))
	}
	c.HandOver = took
	handedOver := median(took)
	switch {
	case !c.Traits.Notifies:
		return c.say("wake-ups", Note, "there are none; a waiter gets a released lock after %v", handedOver)
	case took.Quantile(0.5)-c.Pair.Quantile(1) >= unaided: // unless the store is just slow
		return c.say("wake-ups", Warn, "none came: the waiter detected the release by polling, after %v", handedOver)
	}
	return c.say("wake-ups", OK, "a waiter gets a released lock after %v", handedOver)
}

// refusals is the key of a channel for the refusals of a waiter: those of others, and of those
// before it, may be told late.
type refusals struct{}

func attempted(ctx context.Context, a holdfast.AttemptInfo) {
	if c, ok := ctx.Value(refusals{}).(chan struct{}); ok && errors.Is(a.Err, holdfast.ErrHeld) {
		select {
		case c <- struct{}{}:
		default: // enough are noted
		}
	}
}

// handOvers lets the two Clients pass the lock to and fro. It measures how long each hand-over
// takes, from before the release to the grant to the waiter.
func (c *check) handOvers(ctx context.Context) (took Samples, err error) {
	hold, err := c.mine.Lock(ctx, c.resource, nil)
	to, next := c.other, c.mine
	for began := time.Now(); err == nil && len(took) < handOvers && (len(took) == 0 || time.Since(began) < measureTime); to, next = next, to {
		var d time.Duration
		if d, hold, err = c.handOver(ctx, hold, to); err == nil {
			took = append(took, d)
		}
	}
	if err != nil {
		return took, err
	}
	return took, hold.Unlock(ctx)
}

var errEarly = fmt.Errorf("%w: it grants a lock before that is released", holdfast.ErrUnusable)

// handOver returns how long the hand-over took, and the waiter's hold.
func (c *check) handOver(ctx context.Context, hold *holdfast.Hold, to *holdfast.Client) (time.Duration, *holdfast.Hold, error) {
	type answer struct {
		hold *holdfast.Hold
		at   time.Time
		err  error
	}
	refused := make(chan struct{}, 2)
	answers := make(chan answer, 1) // the Client's Close ends the Lock, if nothing else does
	go func() {
		h, err := to.Lock(context.WithValue(ctx, refusals{}, refused), c.resource, nil)
		answers <- answer{h, time.Now(), err}
	}()
	enough := 1 // refusals mean that it waits
	if c.Traits.Notifies {
		enough = 2 // the second comes when the subscription is effective
	}
	for range enough {
		select {
		case <-refused:
		case a := <-answers:
			if a.err != nil {
				return 0, nil, a.err
			}
			// Or the hold was lost, while this process stood still.
			return 0, nil, fmt.Errorf("hand over: %w", cmp.Or(hold.Unlock(ctx), errEarly))
		}
	}
	released := time.Now()
	if err := hold.Unlock(ctx); err != nil {
		return 0, nil, err
	}
	a := <-answers
	return a.at.Sub(released), a.hold, a.err
}
