package holdfast

import (
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// line is the queue of a Client's askers for one resource, first come first
// served over all modes. Only its head asks the store, so that a thousand
// goroutines cost the store as much as one.
type line struct {
	head *asker
	rest []*asker
	last *HeldError // the head's last refusal
}

// enter puts the asker in line. It returns false when it has to wait for its
// turn.
func (c *Client) enter(a *asker) (turn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals++
	a.arrived = c.arrivals
	l := c.lines[a.q.Resource]
	if l.head == nil {
		c.lines[a.q.Resource] = line{head: a}
		return true
	}
	a.turn = make(chan *HeldError, 1)
	l.rest = append(l.rest, a)
	c.lines[a.q.Resource] = l
	if a.named {
		// The lock ID may be the holder's own: only a fresh refusal can tell, and
		// it must not wait for the head's next try.
		l.head.nudge()
	}
	return false
}

// leave takes the asker out of the line and lets the next one step forward.
func (c *Client) leave(a *asker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[a.q.Resource]
	switch {
	case l.head != a:
		i := slices.Index(l.rest, a)
		if i < 0 {
			return // sent away
		}
		l.rest = slices.Delete(l.rest, i, i+1)
	case len(l.rest) == 0:
		delete(c.lines, a.q.Resource)
		return
	default:
		l.head, l.rest = l.rest[0], l.rest[1:]
		l.head.turn <- nil
	}
	c.lines[a.q.Resource] = l
}

// sending marks the beginning of an attempt and returns its place among the
// arrivals.
func (c *Client) sending() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals++
	return c.arrivals
}

// refused notes the head's refusal, and sends away those in line who wait for a
// hold of their own lock ID: they would wait for themselves. Only those who came
// before the attempt was sent: for the others the answer may be out of date.
// BySelf is cleared where the hold in the way is one that this Client is cleaning
// up: that one goes away.
func (c *Client) refused(a *asker, sent uint64, e *HeldError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.BySelf && c.onlyOrphans(e, a.q.LockID) {
		e.BySelf = false
	}
	l := c.lines[a.q.Resource]
	if l.head != a {
		return // TryLock is not in line
	}
	l.last = e
	l.rest = slices.DeleteFunc(l.rest, func(w *asker) bool {
		if !w.named || w.arrived > sent || !c.holdsOf(e, w.q.LockID) {
			return false
		}
		own := *e
		own.BySelf = true
		w.turn <- &own
		return true
	})
	c.lines[a.q.Resource] = l
}

// onlyOrphans reports whether all that the lock ID has in the way are holds that
// are being cleaned up.
func (c *Client) onlyOrphans(e *HeldError, lockID string) bool {
	found := false
	for _, s := range e.Holders {
		if s.LockID == lockID {
			if _, orphan := c.orphans[s.HoldID]; !orphan {
				return false
			}
			found = true
		}
	}
	return found
}

// holdsOf reports whether a live hold of the lock ID is in the way for good.
func (c *Client) holdsOf(e *HeldError, lockID string) bool {
	return !c.onlyOrphans(e, lockID) &&
		slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return s.LockID == lockID && s.Left != 0 })
}

// lastRefusal returns the holders that the head of the line last met.
func (c *Client) lastRefusal(resource string) HeldError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.lines[resource].last; last != nil {
		e := *last
		e.BySelf = false // said of the head's lock ID
		return e
	}
	return HeldError{Resource: resource, RetryAfter: driver.Unknown}
}

// nudgeHead makes the head of the line ask now: this Client itself gave the
// resource up, and need not be told so by the store. c.mu is held.
func (c *Client) nudgeHead(resource string) {
	if len(c.lines) == 0 {
		return
	}
	if head := c.lines[resource].head; head != nil {
		head.nudge()
	}
}
