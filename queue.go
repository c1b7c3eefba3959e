package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// queue is that of a Client's acquirers for one resource, first come first
// served over all modes. While the store refuses, only the first of them asks, so
// that a thousand goroutines cost the store as much as one. Once it grants a
// shared hold, those behind who ask for the same follow together: one for each
// that was granted, so that no more are refused than were granted before.
type queue struct {
	first, last *acquirer
	attempts    int           // begun so far
	asked       time.Duration // when the last of them began or was answered
	recheck     bool          // the first is told already to ask once more, for others' sake
	heard       error         // by the last attempt: a *HeldError, or that there was no answer; nil: nothing yet
	silentSince time.Duration // since when there was no answer, if that is what was heard
	granted     int           // shared holds since the last refusal
}

// place is that of an acquirer in its line.
type place struct {
	prev, next *acquirer
	queued     bool          // behind another
	came       int           // how many attempts its line had begun by then
	since      time.Duration // when it came, if it stood
	asking     bool          // it was let through, and has no answer yet
	turn       chan struct{} // ask now; made when it first has to wait
	own        *HeldError    // sent away, for the lock ID itself holds the resource
}

// invite lets the acquirer ask as soon as it waits. c.mu is held.
func (p *place) invite() {
	if p.turn == nil {
		p.turn = make(chan struct{}, 1)
	}
	select {
	case p.turn <- struct{}{}:
	default:
	}
}

// enqueue puts the acquirer in line. The first may ask at once, and is told the number
// of its attempt; the others have to wait for their turn.
func (c *Client) enqueue(a *acquirer) (attempt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := a.q.Resource
	l := c.queues[resource]
	if l.first == nil {
		c.queues[resource] = queue{first: a, last: a, attempts: 1}
		return 1
	}
	now := c.clock()
	a.queued, a.came, a.since = true, l.attempts, now
	a.turn = make(chan struct{}, 1)
	a.prev, l.last.next, l.last = l.last, a, a
	if a.named && !l.recheck {
		// The lock ID may be the holder's own, as only a fresh refusal can tell, and
		// that must not wait for the next try. But all who come within a step share it.
		l.recheck = true
		var held *HeldError
		if wait := l.asked + wakeInterval - now; wait <= 0 || errors.As(l.heard, &held) && holds(held, a.q.LockID) {
			l.first.invite()
		} else {
			time.AfterFunc(wait, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.inviteFirst(resource)
			})
		}
	}
	c.queues[resource] = l
	return 0
}

// takeTurn begins an attempt of an acquirer who waited, unless there is no use in it:
// its own lock ID has turned out to hold the resource, or the store gives no answer.
func (c *Client) takeTurn(a *acquirer) (attempt int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.own != nil {
		return 0, a.own
	}
	l, now := c.queues[a.q.Resource], c.clock()
	if l.hopeless(a, now) {
		return 0, l.heard
	}
	a.asking = true
	l.attempts++
	l.asked, l.recheck = now, false
	c.queues[a.q.Resource] = l
	return l.attempts, nil
}

// noteAnswer notes what an attempt came to that was not granted. It reports whether the
// acquirer is the first in line, and whether the store has been silent for too long.
func (c *Client) noteAnswer(a *acquirer, attempt int, err error) (first, hopeless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.queues[a.q.Resource]
	if a.turn == nil {
		a.turn = make(chan struct{}, 1)
	}
	a.asking = false
	l.asked, l.granted = a.heard, 0
	if !l.unanswered() {
		l.silentSince = a.heard
	}
	l.heard = err
	var held *HeldError
	if errors.As(err, &held) {
		c.rejectOwn(&l, a, attempt, held)
	}
	c.queues[a.q.Resource] = l
	return l.first == a, l.hopeless(a, a.heard)
}

// unanswered reports whether the last attempt was answered by no refusal.
func (l *queue) unanswered() bool { return l.heard != nil && !errors.Is(l.heard, ErrHeld) }

// hopeless: the store has given no answer for as long as the acquirer is to bear.
func (l *queue) hopeless(a *acquirer, now time.Duration) bool {
	return l.unanswered() && now-max(l.silentSince, a.since) >= patience(a.q.TTL)
}

// patience is how long attempts may go unanswered before a Lock gives up.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl, time.Second), DefaultTTL)
}

// rejectOwn ends the wait of those whose own lock ID holds the resource: they would
// wait for themselves. Only those who came before the attempt was sent: for the
// others the answer may be out of date. c.mu is held.
func (c *Client) rejectOwn(l *queue, heard *acquirer, attempt int, e *HeldError) {
	for w := l.first; w != nil; {
		next := w.next
		if w != heard && w.named && !w.asking && w.came < attempt &&
			holds(e, w.q.LockID) && !c.onlyOrphans(e, w.q.LockID) {
			own := *e
			own.BySelf = true
			w.own = &own
			l.remove(w)
			w.invite()
		}
		w = next
	}
}

// holds reports whether a live hold of the lock ID is in the way.
func holds(e *HeldError, lockID string) bool {
	return slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return s.LockID == lockID && s.Left != 0 })
}

// dequeue takes the acquirer out of the line and lets others step forward.
func (c *Client) dequeue(a *acquirer, granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.own != nil {
		return // it has left already
	}
	l := c.queues[a.q.Resource]
	first := l.first == a
	l.remove(a)
	if l.first == nil {
		delete(c.queues, a.q.Resource)
		return
	}
	if first {
		l.first.invite()
	}
	if granted {
		l.heard = &HeldError{Resource: a.q.Resource, RetryAfter: driver.Unknown} // by one of this Client
		l.inviteShared(a)
	}
	c.queues[a.q.Resource] = l
}

// inviteShared lets those at the head of the line ask who ask for the same shared hold
// as a, which was granted.
func (l *queue) inviteShared(a *acquirer) {
	if a.q.Mode != Shared {
		l.granted = 0
		return
	}
	l.granted++
	w := l.first
	for n := l.granted; n > 0 && w != nil && w.q.Mode == Shared && w.q.Limit == a.q.Limit; n-- {
		if !w.asking {
			w.asking = true
			w.invite()
		}
		w = w.next
	}
}

func (l *queue) remove(a *acquirer) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		l.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		l.last = a.prev
	}
	a.prev, a.next = nil, nil
}

// waitError is the error of a wait that ended because of cause: ErrHeld only if
// a refusal was the last that was heard in the line.
func (c *Client) waitError(a *acquirer, cause error) error {
	c.mu.Lock()
	heard := c.queues[a.q.Resource].heard
	c.mu.Unlock()
	var held *HeldError
	switch {
	case errors.As(heard, &held):
		e := *held
		e.Cause = cause
		// Another may have heard it, of its own request.
		e.BySelf = false
		e.LimitDiffers = slices.ContainsFunc(e.Holders, func(s driver.Status) bool {
			return a.q.LimitDiffers(s.Mode, s.Limit)
		})
		return &e
	case heard != nil:
		return fmt.Errorf("%w; the last attempt: %w", cause, heard)
	}
	return cause
}

// inviteFirst makes the first in line ask now: this Client itself gave the
// resource up, and need not be told so by the store. c.mu is held.
func (c *Client) inviteFirst(resource string) {
	if len(c.queues) == 0 {
		return
	}
	if first := c.queues[resource].first; first != nil {
		first.invite()
	}
}
