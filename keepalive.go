package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// A Client has one timer. Each time it fires, tick declares lost the holds that are
// past their deadlines, sends the renewals that are due, and goes on with the
// clean-ups (cleanup.go). Each batch of requests has its own goroutine, so a store
// that hangs delays neither the timer nor other batches.
//
// Three other functions send renewals: Hold.Renew (hold.go) and RenewID (admin.go) for
// the user, and trySweep (sweep.go) for the lease of the background sweep.

// batchSize is how many holds one request carries at most. After requests without an
// answer it is fewer, down to smallBatch. The holds of these requests then travel apart
// from the others, and down to one by one: one of them may be what held up the rest. If
// more than mostBatches requests would be sent at once, they carry up to smallBatch.
const (
	batchSize   = 1000
	smallBatch  = 16
	mostBatches = 64
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
	if at == never || c.closed && len(c.holds) == 0 {
		return
	}
	at = min(at, now+maxSleep)
	if c.timerAt != 0 && c.timerAt <= at {
		return // it arms itself again
	}
	c.timerAt = at
	switch d := at - now; {
	case d <= 0:
		go c.tick() // and not by a timer: CONTRIBUTING.md tells of a bug of Go
	case c.timer == nil:
		c.timer = time.AfterFunc(d, c.tick)
	default:
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
	now := c.clock()
	next := c.keepAlive(now)
	if !c.closed { // else cleanLast has the clean-ups
		next = min(next, c.cleanUpDue(now))
		if len(c.holds) > 0 && !c.lossWatch {
			c.startLossWatch()
		}
	}
	c.arm(now, next)
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
	again := 0 // where those begin whose last renewal had no answer
	for again < len(due) && due[again].failure == nil {
		again++
	}
	if !c.failing && len(due) > c.batch {
		c.batch = min(c.batch+max(c.batch/4, 1), batchSize)
	}
	c.sendRenewals(due[:again], max(c.batch, smallBatch), now)
	c.sendRenewals(due[again:], max(c.batch, min((len(due)-again)/mostBatches, smallBatch)), now)
	return next
}

// sendRenewals sends renewals in batches of at most that size. The hold with the
// shortest time-out limits that of its batch. So it comes first, and takes along only
// holds to which it leaves half of their own: short locks that fail one after another must
// not take away the time to renew a long one. c.mu is held.
func (c *Client) sendRenewals(due []*Hold, size int, now time.Duration) {
	for len(due) > 0 {
		timeout := due[0].renewTimeout(now)
		n := 1
		for n < min(size, len(due)) && due[n].renewTimeout(now) <= 2*timeout {
			n++
		}
		batch := due[:n]
		due = due[n:]
		requests := make([]driver.RenewRequest, n)
		for i, h := range batch {
			requests[i] = driver.RenewRequest{HoldRef: h.ref, TTL: h.ttl}
		}
		c.work.Add(1)
		go c.renew(batch, requests, now, timeout)
	}
}

// collect returns the holds that are past their deadlines, those to be renewed, which
// it marks as in flight, and when the next hold is due. If any renewal is due, those
// that fall due within a twelfth of their lease join it. Holds whose last renewal had no
// answer come after the others, and otherwise short time-outs first. c.mu is held.
func (c *Client) collect(now time.Duration) (expired, due []*Hold, next time.Duration) {
	renew := false
	c.failing = false
	for _, h := range c.holds {
		c.failing = c.failing || h.failure != nil
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
	slices.SortFunc(due, func(a, b *Hold) int {
		if failed := a.failure != nil; failed != (b.failure != nil) {
			if failed {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.renewTimeout(now), b.renewTimeout(now))
	})
	return expired, due, next
}

// renewTimeout is how long a renewal may take: half of the time left until the deadline
// at most, so that another can be sent in time if the request gets lost. c.mu is held.
func (h *Hold) renewTimeout(now time.Duration) time.Duration {
	return min(attemptTimeout(leaseOf(h.ttl)), (h.deadline-now)/2+1)
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
	call := &attempt{parent: context.Background(), client: c, detached: true, timeout: timeout}
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(c.renewing, cancel)
	results, err := c.store.Renew(ctx, requests)
	stop()
	cancel()
	err = call.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, h := range batch {
		// The hold notes the outcome; there is no caller to return it to.
		err := outcome(results, err, i, renewErr)
		if err == nil {
			h.noteWaiters(results[i].Waiters)
		}
		_ = c.renewed(h, requests[i].TTL, sent, true, err)
	}
	if err != nil && len(batch) > 1 {
		// The store may need time for each hold, or one of them may hold up the others.
		// Each try has half the time of the one before, so half as many would not be
		// enough.
		c.batch = min(c.batch, max(len(batch)/8, 1))
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
		if sent < c.doubtedAt {
			h.renewAt = now // the store may have lost it since
		}
		h.failure, h.pauses = nil, backoff.Backoff{}
	case errors.Is(err, ErrLost):
		cause = ErrForced
	default:
		lease := leaseOf(h.ttl)
		if h.failure == nil {
			h.pauses = backoff.New(lease/48, lease/12)
		}
		h.failure = err
		// Near the deadline the pauses get shorter, so that there are more tries.
		at := now + min(h.pauses.Next(), max((h.deadline-now)/4, lease/48))
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
		h.tellRenewed(sent, now, h.lossBy(cause))
		c.lose(h, cause)
		return h.loss
	}
	c.armFor(h, now)
	if err != nil {
		c.warn("holdfast: renewal without an answer, will repeat it",
			"resource", h.ref.Resource, "lockID", h.ref.LockID, "error", err)
		err = wrap("renew", h.ref.Resource, err)
	}
	h.tellRenewed(sent, now, err)
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
