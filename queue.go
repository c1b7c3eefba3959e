package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// queue holds a Client's acquirers of one resource: first come, first served, in all
// modes. While the store refuses, only the first acquirer tries, so a thousand goroutines
// cost the store as much as one. After a grant of a shared hold, the next acquirers in the
// queue for the same kind of hold try together: as many as were granted since the last
// refusal.
//
// It has 128 bytes: a map allocates larger values one by one.
type queue struct {
	first, last *acquirer
	ran         time.Duration // how long it has asked or waited; it may stop with the process, see pass
	asked       time.Duration // when that was noted last
	most        time.Duration // how much longer the attempts or the pause of the first may take
	heard       error         // the last answer: a *HeldError, or the error of a call without one; nil: none yet
	silentSince time.Duration // what ran was when calls began to have no answer, if heard says so
	headSince   time.Duration // when the first became that
	stored      storedPlace   // of the first in the store's queue
	strays      []HoldID      // of attempts with that place that were given up
	granted     int32         // shared holds since the last refusal
}

// member is what the queue keeps of an acquirer.
type member struct {
	prev, next *acquirer
	queued     bool          // it came after another
	since      time.Duration // what ran was when it came, if queued
	asking     bool          // it was invited or tries, and has no answer yet
	aside      bool          // a hold of its own lock ID was in its way: see stepAside
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
	resource := a.q.Resource
	l := c.queues[resource]
	before := l.first
	l.append(a)
	now = c.clock()
	if before == nil {
		l.asked = now
	}
	l.pass(now)
	a.since = l.ran
	if l.first == a {
		a.asking = true
		l.headSince = now
		if before != nil {
			c.passPlace(&l, before, true, false)
		}
		l.begin(a)
		c.usePlace(&l, a, now)
		c.queues[resource] = l
		return true, now
	}
	a.queued, a.asked = true, true
	a.waitStart(now)
	a.turn = make(chan struct{}, 1)
	a.reject(c.ownHold(a))
	c.queues[resource] = l
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
	now = c.clock()
	l := c.queues[a.q.Resource]
	l.pass(now)
	if l.storeUnresponsive(a) {
		return 0, l.heard
	}
	a.asking = true
	l.begin(a)
	c.usePlace(&l, a, now)
	c.queues[a.q.Resource] = l
	return now, nil
}

// noteAnswer notes the error of an attempt. It reports whether the acquirer is the first of
// its queue. If the wait is over, because the acquirer would wait for itself or the store
// has been silent for too long, it returns why.
func (c *Client) noteAnswer(a *acquirer, err error) (first bool, over error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.queues[a.q.Resource]
	if a.turn == nil {
		a.turn = make(chan struct{}, 1)
	}
	a.asking = false
	l.pass(a.heard)
	if l.first == a {
		l.most = 2 * retryLimit // it pauses
	}
	l.granted = 0
	if !l.unanswered() {
		l.silentSince = l.ran
	}
	l.heard = err
	own := c.ownHold(a)
	var held *HeldError
	switch {
	case errors.As(err, &held):
		if own != nil && held.BySelf {
			over = copyOf(held)
			break
		}
		a.waitStart(a.heard)
		l.comeBack(held.Holders)
		if a.aside = held.BySelf; a.aside {
			c.stepAside(&l, a)
		}
	case l.storeUnresponsive(a):
		over = err
	}
	if own != nil && over == nil {
		a.reject(own) // granted to this Client since the store was asked
		over = a.own
	}
	c.queues[a.q.Resource] = l
	return l.first == a, over
}

// stepAside puts an acquirer behind those that may have other holds in their way, because a
// hold of its own lock ID stops it alone: others may share the resource meanwhile, and get a
// place in the store's queue. c.mu is held.
func (c *Client) stepAside(l *queue, a *acquirer) {
	others := l.first
	for others != nil && others.aside { // as a is
		others = others.next
	}
	if others == nil {
		return
	}
	first := l.first == a
	l.remove(a)
	l.append(a)
	if first {
		c.passPlace(l, a, true, false)
		l.headSince = a.heard
		l.first.invite()
	}
}

// comeBack ends the standing aside of those whose lock ID has none of the holds any more: who
// comes later is behind them again.
func (l *queue) comeBack(holders []driver.Status) {
	for w := l.last; w != nil && w.aside; w = w.prev {
		w.aside = slices.ContainsFunc(holders, func(s driver.Status) bool { return s.LockID == w.q.LockID && s.Left != 0 })
	}
}

// pass notes the time since it was called last. That is at most what the attempts and the
// pause under way may take: for the rest the process was stopped, or its machine was
// suspended, and nothing could be heard.
func (l *queue) pass(now time.Duration) {
	passed := min(max(now-l.asked, 0), l.most)
	l.ran, l.most = l.ran+passed, l.most-passed
	l.asked = max(l.asked, now)
}

// begin notes that the acquirer begins an attempt.
func (l *queue) begin(a *acquirer) {
	most := attemptTimeout(a.q.TTL)
	if l.first != a {
		most = max(most, l.most) // the first tries or pauses, too
	}
	l.most = most
}

// unanswered reports whether the last attempt had no answer.
func (l *queue) unanswered() bool { return l.heard != nil && !errors.Is(l.heard, ErrHeld) }

// storeUnresponsive reports whether the store has not answered for as long as the acquirer's
// patience lasts.
func (l *queue) storeUnresponsive(a *acquirer) bool {
	return l.unanswered() && l.ran-max(l.silentSince, a.since) >= patience(a.q.TTL)
}

// patience is how long attempts may go unanswered before a Lock gives up.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl, time.Second), DefaultTTL)
}

// lockKey names what a lock ID can hold once.
type lockKey struct{ resource, lockID string }

// ownHold returns the live hold of the resource that this Client has by the acquirer's lock
// ID, or nil. Only its end is in the hands of those who would wait for it: a hold of the same
// lock ID that another process has, or had before it was killed, or that a late attempt got,
// ends like any other. c.mu is held.
func (c *Client) ownHold(a *acquirer) *Hold {
	if !a.named {
		return nil
	}
	h := c.named[lockKey{a.q.Resource, a.q.LockID}]
	if h == nil || h.deadline <= c.clock() {
		return nil
	}
	return h
}

// rejectOwn ends the waits for a hold that this Client was granted just now by those who
// have its lock ID: they would wait for themselves. Those that ask hear it from the store.
// c.mu is held.
func (c *Client) rejectOwn(own *Hold) {
	for w := c.queues[own.ref.Resource].first; w != nil; w = w.next {
		if w.named && !w.asking && w.q.LockID == own.ref.LockID {
			w.reject(own)
		}
	}
}

// reject ends the wait of an acquirer whose lock ID has the hold, of this Client, if that is
// not nil. c.mu is held.
func (a *acquirer) reject(own *Hold) {
	if own == nil {
		return
	}
	a.own = own.heldBySelf()
	a.invite()
}

// heldBySelf is the refusal of a caller that would wait for its own hold. c.mu is held.
func (h *Hold) heldBySelf() *HeldError {
	return &HeldError{
		Resource: h.ref.Resource, RetryAfter: driver.Unknown, Position: driver.NoPlace, BySelf: true,
		Holders: []Status{{
			Resource: h.ref.Resource, LockID: h.ref.LockID, HoldID: h.ref.HoldID, Mode: h.mode,
			Token: h.ref.Token, Left: h.left(h.client.clock()),
		}},
	}
}

// dequeue removes the acquirer from its queue and invites those whose turn it is.
func (c *Client) dequeue(a *acquirer, granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.queues[a.q.Resource]
	first := l.first == a
	l.remove(a)
	c.passPlace(&l, a, first, granted)
	if l.first == nil {
		delete(c.queues, a.q.Resource)
		return
	}
	if first {
		l.headSince = c.clock()
		l.first.invite()
	}
	if granted {
		if a.q.Mode == Exclusive {
			l.comeBack(nil)
		}
		l.heard = &HeldError{Resource: a.q.Resource, RetryAfter: driver.Unknown} // by one of this Client
		l.inviteShared(a)
	}
	c.queues[a.q.Resource] = l
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

// append puts the acquirer behind all others but those that have stepped aside, unless it
// has done that, too, or the same hold stops it.
func (l *queue) append(a *acquirer) {
	at := l.last
	for ; at != nil && at.aside && !a.aside; at = at.prev {
		a.aside = at.q.LockID == a.q.LockID
	}
	if a.aside {
		at = l.last
	}
	if at == nil {
		l.prepend(a)
		return
	}
	a.prev, a.next = at, at.next
	if at.next = a; a.next != nil {
		a.next.prev = a
	} else {
		l.last = a
	}
}

func (l *queue) prepend(a *acquirer) {
	if a.next = l.first; a.next != nil {
		a.next.prev = a
	} else {
		l.last = a
	}
	l.first = a
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
	heard := c.queues[a.q.Resource].heard
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
	if len(c.queues) == 0 {
		return
	}
	if first := c.queues[resource].first; first != nil {
		first.invite()
	}
}
