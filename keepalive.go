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

// The keep-alive is one timer per Client. Each time it fires it declares lost
// what is past its deadline, and sends what is to be renewed in batches; only
// those have goroutines, one each, so that a store that hangs holds up neither
// the timer nor other batches.

// batchSize is how many holds travel in one request at most, and smallBatch how
// many still do when requests have gone unanswered.
const (
	batchSize  = 1000
	smallBatch = 16
)

// fewer is how many travel together after a batch of n has failed.
func fewer(n int) int { return max(n/4, smallBatch) }

// lookout is how often the timer fires at least while anything is held: timers
// do not count the time that a machine sleeps, the clock does.
const lookout = time.Second

// arm sets the timer to what is due first. c.mu is held.
func (c *Client) arm(now time.Duration) {
	first := c.schedule.first()
	if first == nil || c.closed {
		return
	}
	at := min(first.due(), now+lookout)
	if c.timerAt != 0 && c.timerAt <= at {
		return // it fires soon enough, and arms itself again
	}
	c.timerAt = at
	if d := max(at-now, 0); c.timer == nil {
		c.timer = time.AfterFunc(d, c.tick)
	} else {
		c.timer.Reset(d)
	}
}

// tick does what is due.
func (c *Client) tick() {
	c.mu.Lock()
	c.timerAt = 0
	if c.closed {
		c.mu.Unlock()
		return
	}
	now := c.clock()
	expired, due := c.collect(now)
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
			// Half of what is left to the hold whose deadline is the earliest: a
			// request that got lost is given up in time for others.
			timeout = min(timeout, attemptTimeout(leaseOf(h.ttl)), (h.deadline-now)/2+1)
		}
		c.work.Add(1)
		go c.renew(batch, requests, now, timeout)
	}
	c.arm(now)
	c.mu.Unlock()
}

// collect takes what is past its deadline out of the schedule, and marks as in
// flight what is to be renewed. When there is anything to renew, what falls due
// within its window travels along. c.mu is held.
func (c *Client) collect(now time.Duration) (expired, due []*Hold) {
	take := func(h *Hold) {
		due = append(due, h)
		h.inFlight = true
	}
	for h := c.schedule.first(); h != nil && h.due() <= now; h = c.schedule.first() {
		if h.deadline <= now {
			expired = append(expired, h)
			c.schedule.remove(h)
			continue
		}
		take(h)
		c.schedule.moved(h)
	}
	if len(due) == 0 {
		return expired, nil
	}
	for _, h := range c.schedule {
		if h.keep && !h.inFlight && h.renewAt-h.window() <= now {
			take(h)
		}
	}
	c.schedule.reorder()
	// Holds whose deadlines are near travel together: the earliest bounds a batch.
	slices.SortFunc(due, func(a, b *Hold) int { return cmp.Compare(a.deadline, b.deadline) })
	return expired, due
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
		// What became of it is noted in the hold; nobody is there to be told.
		_ = c.renewed(h, requests[i].TTL, sent, true, outcome(results, err, i, renewErr))
	}
	if err != nil && len(batch) > 1 {
		// A store that takes its time for each hold may answer for fewer. Each try
		// has half the time of the one before, and so half as many would not do.
		c.batch, c.shrunk = min(c.batch, fewer(len(batch))), true
	}
}

// renewed notes the answer to a renewal and says what it means to the holder.
// kept: the keep-alive sent it. c.mu is held.
func (c *Client) renewed(h *Hold, ttl, sent time.Duration, kept bool, err error) error {
	if h.state != live {
		return h.whyOver()
	}
	now := c.clock()
	var cause error
	switch {
	case now >= h.deadline:
		// Final, whatever the store says: the holder may have been told already.
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
			// The user's own may fail for reasons of its own, again and again: it
			// can bring the keep-alive's next try forward, and never put it off.
			at = min(at, h.renewAt)
		}
		h.renewAt = at
	}
	if kept {
		// Together with renewAt: the schedule depends on both.
		h.inFlight = false
	}
	if cause != nil {
		c.lose(h, cause)
		return h.loss
	}
	c.schedule.moved(h)
	c.arm(now)
	if err != nil {
		c.warns("holdfast: renewal without an answer, will repeat it",
			"resource", h.ref.Resource, "lockID", h.ref.LockID, "error", err)
		err = wrap("renew", h.ref.Resource, err)
	}
	if c.trace.Renewed != nil {
		c.teller.tell(func() { c.trace.Renewed(h, err) })
	}
	return err
}

// whyOver is the error of asking for a hold that is not live. c.mu is held.
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

// outcome returns the i-th outcome of a batch. One that is missing, and each of a
// batch that failed, is unknown.
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
