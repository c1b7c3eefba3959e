package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// queue holds a Client's acquirers of one resource: first come, first served, in all
// modes. Those that work under a shared hold of the resource are in a queue of their own:
// the others may wait for that very hold. While the store refuses, only the first acquirer
// tries, so a thousand goroutines cost the store as much as one. After a grant of a shared
// hold, the next acquirers in the queue for the same kind of hold try together: as many as
// were granted since the last refusal.
//
// It has 128 bytes: a map allocates larger values one by one.
type queue struct {
	first, last *acquirer
	attempts    int           // begun so far
	asked       time.Duration // when the last attempt began or was answered
	heard       error         // the last answer: a *HeldError, or the error of a call without one; nil: none yet
	silentSince time.Duration // since when calls have had no answer, if heard says so
	granted     int           // shared holds since the last refusal
	headSince   time.Duration // when the first became that
	stored      storedPlace   // of the first in the store's queue
	strays      []HoldID      // of attempts with that place that were given up
	unplaced    bool          // the last refusal gave that one no place
	recheck     bool          // the first is to try once more on behalf of others
}

type queues map[string]queue // by resource

// queuesOf returns those that the acquirer is in. c.mu is held.
func (c *Client) queuesOf(a *acquirer) queues {
	if a.q.Nested.IsZero() {
		return c.queues[0]
	}
	return c.queues[1]
}

// unnest makes an acquirer that has left its queue one that works under no shared hold.
func (c *Client) unnest(a *acquirer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.q.Nested, a.member, a.ask = HoldID{}, member{}, asking{}
}

// member is what the queue keeps of an acquirer.
type member struct {
	prev, next *acquirer
	queued     bool          // it came after another
	came       int           // attempts of the queue that had begun when it came
	since      time.Duration // when it came, if queued
	asking     bool          // it was invited or tries, and has no answer yet
	turn       chan struct{} // the invitation to try; made when it first has to wait
	own        *HeldError    // set as it was removed: its own lock ID holds the resource
}

// invite lets the acquirer try as soon as it waits. c.mu is held.
func (m *member) invite() {
	if m.turn == nil {
		m.turn = make(chan struct{}, 1)
	}
	select {
	case m.turn <- struct{}{}:
	default:
	}
}

// enqueue appends the acquirer to its queue. The first one may try at once, and gets the
// number of its attempt. The others get 0 and wait for their turn. now is the clock, which
// takes so long to read that the attempt uses the same.
func (c *Client) enqueue(a *acquirer) (attempt int, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queues, resource := c.queuesOf(a), a.q.Resource
	l := queues[resource]
	l.append(a)
	now = c.clock()
	if l.first == a {
		l.attempts++
		a.came, a.asking = l.attempts, true
		l.headSince = now
		c.usePlace(&l, a, now)
		queues[resource] = l
		return l.attempts, now
	}
	a.queued, a.came, a.since, a.asked = true, l.attempts, now, true
	a.waitStart(now)
	a.turn = make(chan struct{}, 1)
	if a.named && !l.recheck {
		// The holder may have the same lock ID. Only a new refusal shows that, and
		// the acquirer must not wait long for it. Acquirers that come within a
		// wakeInterval share one.
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
	queues[resource] = l
	return 0, now
}

// takeTurn begins an attempt of an acquirer that waited. It fails if the attempt is
// useless: its own lock ID holds the resource, or the store has not answered for too
// long.
func (c *Client) takeTurn(a *acquirer) (attempt int, now time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.own != nil {
		return 0, 0, a.own
	}
	queues := c.queuesOf(a)
	now = c.clock()
	l := queues[a.q.Resource]
	if l.hopeless(a, now) {
		return 0, 0, l.heard
	}
	a.asking = true
	l.attempts++
	l.asked, l.recheck = now, false
	c.usePlace(&l, a, now)
	queues[a.q.Resource] = l
	return l.attempts, now, nil
}

// noteAnswer notes the error of an attempt. It reports whether the acquirer is the
// first of its queue, and whether the store has been silent for too long.
func (c *Client) noteAnswer(a *acquirer, attempt int, err error) (first, hopeless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queues := c.queuesOf(a)
	l := queues[a.q.Resource]
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
		if a.q.Place == l.stored.id {
			l.unplaced = held.Position == driver.NoPlace
		}
		if !held.BySelf {
			a.waitStart(a.heard)
		}
		c.rejectOwn(&l, a, attempt, held)
	}
	queues[a.q.Resource] = l
	return l.first == a, l.hopeless(a, a.heard)
}

// unanswered reports whether the last attempt had no answer.
func (l *queue) unanswered() bool { return l.heard != nil && !errors.Is(l.heard, ErrHeld) }

// hopeless reports whether the store has not answered for as long as the acquirer's
// patience lasts.
func (l *queue) hopeless(a *acquirer, now time.Duration) bool {
	return l.unanswered() && now-max(l.silentSince, a.since) >= patience(a.q.TTL)
}

// patience is how long attempts may go unanswered before a Lock gives up.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl, time.Second), DefaultTTL)
}

// rejectOwn ends the wait of acquirers whose own lock ID holds the resource: they would
// wait for themselves. It leaves those that came after the attempt was sent: for them
// the answer may be out of date. c.mu is held.
func (c *Client) rejectOwn(l *queue, heard *acquirer, attempt int, e *HeldError) {
	var held map[string]bool // lock IDs, made once: there may be many holds and many waiters
	for w := l.first; w != nil; {
		next := w.next
		if w != heard && w.named && !w.asking && w.came < attempt {
			if held == nil {
				held = lockIDs(e)
			}
			if held[w.q.LockID] && !c.onlyOrphans(e, w.q.LockID) {
				w.own = copyOf(e)
				w.own.BySelf = true
				first := l.first == w
				l.remove(w)
				c.passPlace(l, w, first, false)
				if first && l.first != nil {
					l.headSince = c.clock()
					l.first.invite()
				}
				w.invite()
			}
		}
		w = next
	}
}

// holds reports whether the refusal names a live hold of the lock ID.
func holds(e *HeldError, lockID string) bool {
	return slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return s.LockID == lockID && s.Left != 0 })
}

// lockIDs returns those of the live holds in the refusal.
func lockIDs(e *HeldError) map[string]bool {
	ids := make(map[string]bool, len(e.Holders))
	for i := range e.Holders {
		if s := &e.Holders[i]; s.Left != 0 {
			ids[s.LockID] = true
		}
	}
	return ids
}

// dequeue removes the acquirer from its queue and invites those whose turn it is.
func (c *Client) dequeue(a *acquirer, granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.own != nil {
		return // it was removed already
	}
	queues := c.queuesOf(a)
	l := queues[a.q.Resource]
	first := l.first == a
	l.remove(a)
	c.passPlace(&l, a, first, granted)
	if l.first == nil {
		delete(queues, a.q.Resource)
		return
	}
	if first {
		l.headSince = c.clock()
		l.first.invite()
	}
	if granted {
		l.heard = &HeldError{Resource: a.q.Resource, RetryAfter: driver.Unknown} // by one of this Client
		l.inviteShared(a)
	}
	queues[a.q.Resource] = l
}

// inviteShared invites acquirers at the head of the queue that request a shared hold
// with the same limit as a, which was granted.
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

func (l *queue) append(a *acquirer) {
	if l.first == nil {
		l.first, l.last = a, a
		return
	}
	a.prev, l.last.next, l.last = l.last, a, a
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

// waitError returns the error of a wait that ended because of cause. It is ErrHeld
// only if the last answer in the queue was a refusal.
func (c *Client) waitError(a *acquirer, cause error) error {
	c.mu.Lock()
	heard := c.queuesOf(a)[a.q.Resource].heard
	c.mu.Unlock()
	var held *HeldError
	switch {
	case errors.As(heard, &held):
		e := copyOf(held)
		e.Cause = cause
		// It may be the answer to another acquirer's request.
		e.BySelf = false
		if a.q.Place.IsZero() {
			e.Position = driver.NoPlace
		}
		e.LimitDiffers = slices.ContainsFunc(e.Holders, func(s driver.Status) bool {
			return a.q.LimitDiffers(s.Mode, s.Limit)
		})
		return e
	case heard != nil:
		return fmt.Errorf("%w; the last attempt: %w", cause, heard)
	}
	return cause
}

// copyOf returns a copy of what several acquirers are told: each may change what it gets.
func copyOf(e *HeldError) *HeldError {
	own := *e
	own.Holders, own.Ahead = slices.Clone(e.Holders), slices.Clone(e.Ahead)
	return &own
}

// inviteFirst invites the first acquirers of the resource: this Client itself released
// the resource, and need not wait for a signal of the store. c.mu is held.
func (c *Client) inviteFirst(resource string) {
	for _, queues := range c.queues {
		if len(queues) == 0 {
			continue
		}
		if first := queues[resource].first; first != nil {
			first.invite()
		}
	}
}
