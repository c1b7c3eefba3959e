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
	ran         time.Duration // how long it has asked or waited; it may stop with the process, see pass
	asked       time.Duration // when that was noted last
	heard       error         // the last answer: a *HeldError, or the error of a call without one; nil: none yet
	silentSince time.Duration // what ran was when calls began to have no answer, if heard says so
	granted     int           // shared holds since the last refusal
	headSince   time.Duration // when the first became that
	stored      storedPlace   // of the first in the store's queue
	strays      []HoldID      // of attempts with that place that were given up
	unplaced    bool          // the last refusal gave that one no place
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
	since      time.Duration // what ran was when it came, if queued
	asking     bool          // it was invited or tries, and has no answer yet
	turn       chan struct{} // the invitation to try; made when it first has to wait
	own        *HeldError    // why its wait is over: its own lock ID holds the resource, by this Client
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

// enqueue appends the acquirer to its queue. It reports whether that is the first one, which
// may try at once. The others wait for their turn. now is the clock, which takes so long to
// read that the attempt uses the same.
func (c *Client) enqueue(a *acquirer) (first bool, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queues, resource := c.queuesOf(a), a.q.Resource
	l := queues[resource]
	l.append(a)
	now = c.clock()
	if l.first == a {
		a.asking = true
		l.headSince, l.asked = now, now
		c.usePlace(&l, a, now)
		queues[resource] = l
		return true, now
	}
	l.pass(now, attemptTimeout(a.q.TTL))
	a.queued, a.since, a.asked = true, l.ran, true
	a.waitStart(now)
	a.turn = make(chan struct{}, 1)
	if a.named {
		a.reject(c.ownHold(resource, a.q.LockID))
	}
	queues[resource] = l
	return false, now
}

// takeTurn begins an attempt of an acquirer that waited. It fails if the attempt is
// useless: its own lock ID holds the resource, or the store has not answered for too
// long.
func (c *Client) takeTurn(a *acquirer) (now time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.own != nil {
		return 0, a.own
	}
	queues := c.queuesOf(a)
	now = c.clock()
	l := queues[a.q.Resource]
	l.pass(now, 2*retryLimit)
	if l.hopeless(a) {
		return 0, l.heard
	}
	a.asking = true
	c.usePlace(&l, a, now)
	queues[a.q.Resource] = l
	return now, nil
}

// noteAnswer notes the error of an attempt. It reports whether the acquirer is the first of
// its queue. If the wait is over, because the acquirer would wait for itself or the store
// has been silent for too long, it returns why.
func (c *Client) noteAnswer(a *acquirer, err error) (first bool, over error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queues := c.queuesOf(a)
	l := queues[a.q.Resource]
	if a.turn == nil {
		a.turn = make(chan struct{}, 1)
	}
	a.asking = false
	l.pass(a.heard, attemptTimeout(a.q.TTL))
	l.granted = 0
	if !l.unanswered() {
		l.silentSince = l.ran
	}
	l.heard = err
	var held *HeldError
	switch {
	case errors.As(err, &held):
		if a.q.Place == l.stored.id {
			l.unplaced = held.Position == driver.NoPlace
		}
		if held.BySelf && c.ownHold(a.q.Resource, a.q.LockID) != nil {
			over = copyOf(held)
		} else {
			a.waitStart(a.heard)
		}
	case l.hopeless(a):
		over = err
	}
	queues[a.q.Resource] = l
	return l.first == a, over
}

// pass notes the time since the last attempt began or was answered. That is at most what the
// attempt or the pause may take: for the rest the process was stopped, or its machine was
// suspended, and nothing could be heard.
func (l *queue) pass(now, most time.Duration) {
	l.ran += min(max(now-l.asked, 0), most)
	l.asked = max(l.asked, now)
}

// unanswered reports whether the last attempt had no answer.
func (l *queue) unanswered() bool { return l.heard != nil && !errors.Is(l.heard, ErrHeld) }

// hopeless reports whether the store has not answered for as long as the acquirer's
// patience lasts.
func (l *queue) hopeless(a *acquirer) bool {
	return l.unanswered() && l.ran-max(l.silentSince, a.since) >= patience(a.q.TTL)
}

// patience is how long attempts may go unanswered before a Lock gives up.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl, time.Second), DefaultTTL)
}

// ownHold returns the live hold of the resource that this Client has by the lock ID, or nil.
// Only its end is in the hands of those who would wait for it: a hold of the same lock ID
// that another process has, or had before it was killed, or that a late attempt got, ends
// like any other. c.mu is held.
func (c *Client) ownHold(resource, lockID string) *Hold {
	now := c.clock()
	for _, h := range c.holds {
		if h.ref.Resource == resource && h.ref.LockID == lockID && h.deadline > now {
			return h
		}
	}
	return nil
}

// rejectOwn ends the waits for a hold that this Client was granted just now by those who
// have its lock ID: they would wait for themselves. Those that ask hear it from the store.
// c.mu is held.
func (c *Client) rejectOwn(own *Hold) {
	for _, queues := range c.queues {
		for w := queues[own.ref.Resource].first; w != nil; w = w.next {
			if w.named && !w.asking && w.q.LockID == own.ref.LockID {
				w.reject(own)
			}
		}
	}
}

// reject ends the wait of an acquirer whose lock ID has the hold, of this Client, if that is
// not nil. c.mu is held.
func (a *acquirer) reject(own *Hold) {
	if own == nil {
		return
	}
	left := Forever
	if own.deadline != never {
		left = own.deadline - a.c.clock()
	}
	a.own = &HeldError{
		Resource: own.ref.Resource, RetryAfter: driver.Unknown, Position: driver.NoPlace, BySelf: true,
		Holders: []Status{{
			Resource: own.ref.Resource, LockID: own.ref.LockID, HoldID: own.ref.HoldID, Mode: own.mode,
			Token: own.ref.Token, Left: left,
		}},
	}
	a.invite()
}

// dequeue removes the acquirer from its queue and invites those whose turn it is.
func (c *Client) dequeue(a *acquirer, granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
