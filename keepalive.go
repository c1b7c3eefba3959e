package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Client has one timer. Each time it fires, tick declares lost the holds that are
// past their deadlines, sends the renewals that are due, and goes on with the
// clean-ups (cleanup.go). Each batch of requests has its own goroutine, so a store
// that hangs delays neither the timer nor other batches.
//
// Three other functions send renewals: Hold.Renew (hold.go) and RenewID (admin.go) for
// the user, and trySweep (sweep.go) for the lease of the background sweep.

// batchSize is how many holds one request carries at most, and smallBatch how many
// it still carries after requests have gone unanswered.
const (
	batchSize  = 1000
	smallBatch = 16
)

// maxSleep is how long the timer sleeps at most: timers do not count the time that a
// machine sleeps, the clock does.
const maxSleep = time.Second

// foreverCheck is how often the holder of a hold without an end makes sure that
// it still holds.
const foreverCheck = 30 * time.Second

// leaseOf returns the TTL that determines how often a hold is renewed.
func leaseOf(ttl time.Duration) time.Duration {
	if ttl == Forever {
		return 3 * foreverCheck
	}
	return ttl
}

// arm makes the timer fire at that time or earlier. c.mu is held.
func (c *Client) arm(now, at time.Duration) {
	if at == never || c.closed {
		return
	}
	at = min(at, now+maxSleep)
	if c.timerAt != 0 && c.timerAt <= at {
		return // it arms itself again
	}
	c.timerAt = at
	if d := max(at-now, 0); c.timer == nil {
		c.timer = time.AfterFunc(d, c.tick)
	} else {
		c.timer.Reset(d)
	}
}

// armFor makes the timer fire when the hold is due. c.mu is held.
func (c *Client) armFor(h *Hold, now time.Duration) {
	c.holdsDue = min(c.holdsDue, h.due())
	c.arm(now, c.holdsDue)
}

// tick does what is due.
func (c *Client) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timerAt = 0
	if c.closed {
		return
	}
	now := c.clock()
	c.arm(now, min(c.keepAlive(now), c.cleanUpDue(now)))
}

// keepAlive loses the holds that are past their deadlines, sends the renewals that
// are due, and returns when to look again. c.mu is held.
func (c *Client) keepAlive(now time.Duration) (next time.Duration) {
	if now < c.holdsDue {
		return c.holdsDue
	}
	expired, due, next := c.collect(now)
	c.holdsDue = next
	for _, h := range expired {
		c.lose(h, nil)
	}
	if !c.shrunk && len(due) > c.batch {
		c.batch = min(c.batch+c.batch/4, batchSize)
	}
	c.shrunk = false
	for batch := range slices.Chunk(due, c.batch) {
		requests := make([]driver.RenewRequest, len(batch))
		timeout := never
		for i, h := range batch {
			requests[i] = driver.RenewRequest{HoldRef: h.ref, TTL: h.ttl}
			// Half of the time left until the earliest deadline: if the request gets
			// lost, another can be sent in time.
			timeout = min(timeout, attemptTimeout(leaseOf(h.ttl)), (h.deadline-now)/2+1)
		}
		c.work.Add(1)
		go c.renew(batch, requests, now, timeout)
	}
	return next
}

// collect returns the holds that are past their deadlines, those to be renewed,
// which it marks as in flight, and when the next hold is due. If any renewal is due,
// those that fall due within a twelfth of their lease join it. c.mu is held.
func (c *Client) collect(now time.Duration) (expired, due []*Hold, next time.Duration) {
	renew := false
	for _, h := range c.holds {
		if h.deadline <= now {
			expired = append(expired, h)
		} else if h.due() <= now {
			renew = true
		}
	}
	next = never
	for _, h := range c.holds {
		if h.deadline <= now {
			continue
		}
		if renew && h.keep && !h.inFlight && h.renewAt-leaseOf(h.ttl)/12 <= now {
			due = append(due, h)
			h.inFlight = true
		}
		next = min(next, h.due())
	}
	// Holds with near deadlines share a batch: the earliest limits its time-out.
	slices.SortFunc(due, func(a, b *Hold) int { return cmp.Compare(a.deadline, b.deadline) })
	return expired, due, next
}

// due is when the keep-alive must look at the hold: to renew it, or to declare it
// lost. c.mu is held.
func (h *Hold) due() time.Duration {
	if h.keep && !h.inFlight {
		return min(h.renewAt, h.deadline)
	}
	return h.deadline
}

// renew sends one batch.
func (c *Client) renew(batch []*Hold, requests []driver.RenewRequest, sent, timeout time.Duration) {
	defer c.work.Done()
	call := &attempt{parent: context.Background(), client: c, timeout: timeout}
	results, err := c.store.Renew(call, requests)
	err = call.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range batch {
		// The hold notes the outcome; there is no caller to return it to.
		_ = c.renewed(h, requests[i].TTL, sent, true, outcome(results, err, i, renewErr))
	}
	if err != nil && len(batch) > 1 {
		// The store may need time for each hold. Each try has half the time of the one
		// before, so half as many would not be enough.
		c.batch, c.shrunk = min(c.batch, max(len(batch)/4, smallBatch)), true
	}
}

// renewed notes the answer to a renewal and returns the error for the holder.
// kept: the keep-alive sent it. c.mu is held.
func (c *Client) renewed(h *Hold, ttl, sent time.Duration, kept bool, err error) error {
	if h.state != live {
		return h.whyOver()
	}
	now := c.clock()
	var cause error
	switch {
	case now >= h.deadline:
		// Final, even if the store has renewed the hold: its context may have ended.
		cause = h.expiry()
	case err == nil:
		h.deadline = max(h.deadline, c.deadlineOf(sent, ttl))
		h.renewAt = sent + leaseOf(ttl)/3
		h.failure, h.pauses = nil, backoff{}
	case errors.Is(err, ErrLost):
		cause = ErrForced
	default:
		if h.failure == nil {
			lease := leaseOf(h.ttl)
			h.pauses = backoff{next: lease / 48, limit: lease / 12}
		}
		h.failure = err
		at := now + h.pauses.pause()
		if !kept {
			// A renewal by the user may fail again and again, for reasons of its own,
			// such as a short ctx. It may bring the next try of the keep-alive
			// forward, but must not delay it.
			at = min(at, h.renewAt)
		}
		h.renewAt = at
	}
	if kept {
		h.inFlight = false
	}
	if cause != nil {
		c.lose(h, cause)
		return h.loss
	}
	c.armFor(h, now)
	if err != nil {
		c.warn("holdfast: renewal without an answer, will repeat it",
			"resource", h.ref.Resource, "lockID", h.ref.LockID, "error", err)
		err = wrap("renew", h.ref.Resource, err)
	}
	if c.trace.Renewed != nil {
		c.notifier.notify(func() { c.trace.Renewed(h, err) })
	}
	return err
}

// whyOver is the error of an operation on a hold that is not live. c.mu is held.
func (h *Hold) whyOver() error {
	if h.loss != nil {
		return h.loss
	}
	return ErrReleased
}

// expiry is why a hold that is past its deadline was lost. c.mu is held.
func (h *Hold) expiry() error {
	switch {
	case h.failure != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, h.failure)
	case h.inFlight:
		return ErrUnreachable
	}
	return ErrExpired
}

// outcome returns the i-th outcome of a batch. An outcome that is missing is unknown,
// and so are all outcomes of a batch that failed.
func outcome[R any](results []R, err error, i int, errOf func(R) error) error {
	switch {
	case err != nil:
		return err
	case i >= len(results):
		return fmt.Errorf("the store answered %d requests of a batch, not the one at %d", len(results), i)
	}
	return errOf(results[i])
}

func renewErr(r driver.RenewResult) error { return r.Err }

func releaseErr(r driver.ReleaseResult) error {
	if r.Err == nil && r.Remains {
		return errRetaken
	}
	return r.Err
}
