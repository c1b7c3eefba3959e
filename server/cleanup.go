package server

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// cleanMost is how long an orphan is released again and again at most.
	cleanMost = 5 * time.Minute
	// cleanFirst and cleanLimit are the pauses between two releases.
	cleanFirst, cleanLimit = 10 * time.Millisecond, 10 * time.Second
	// mostOrphans bounds the memory. What is beyond ends by its TTL.
	mostOrphans = 10_000
	// cleanBatch is how many are released by one call. They are few, because each hold is
	// looked at before.
	cleanBatch = 50
	// cleanClosing is how long Close waits for it.
	cleanClosing = 3 * time.Second
)

// cleaner releases the holds and places of acquires whose callers are gone, or have lost
// their right. An attempt that had no answer may arrive after the release: so it releases
// until it found the hold, or the hold would have ended by itself.
type cleaner struct {
	s       *Server
	mu      sync.Mutex
	orphans map[waiterKey]*orphan
	closed  bool
	wake    chan struct{} // one was added
	idle    chan struct{} // closed when the goroutine that releases ends; nil: there is none
}

// orphan is what is left of an acquire.
type orphan struct {
	key     waiterKey
	q       driver.ReleaseRequest
	endless bool      // the server itself renews the hold
	unknown int       // attempts that may be applied, now or later; 0: there is only a place
	until   time.Time // when the hold has ended by itself
	due     time.Time
	pause   time.Duration
}

func (c *cleaner) init(s *Server) {
	c.s, c.orphans, c.wake = s, make(map[waiterKey]*orphan), make(chan struct{}, 1)
}

// cleanUp releases in the background what the acquire may have left.
func (a *acquisition) cleanUp() {
	if a.unknown == 0 && !a.placed {
		return
	}
	q := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID, HoldID: a.q.HoldID}}
	if a.placed {
		q.Place = a.ownPlace()
	}
	a.orphan(q, a.unknown)
}

// giveUpPlace gives up the place in the background, and no hold.
func (a *acquisition) giveUpPlace() {
	if a.placed {
		a.orphan(driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID}, Place: a.ownPlace()}, 0)
	}
}

func (a *acquisition) orphan(q driver.ReleaseRequest, unknown int) {
	now := time.Now()
	ttl := min(a.q.TTL, cleanMost)
	if a.q.TTL == driver.Forever {
		ttl = cleanMost
	}
	a.x.s.cleaner.add(&orphan{
		key: a.waiterKey(), q: q, endless: a.q.TTL == driver.Forever, unknown: unknown,
		until: now.Add(ttl), due: now, pause: cleanFirst,
	})
}

func (c *cleaner) add(o *orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.orphans) >= mostOrphans {
		c.s.opts.Logger.Warn("holdfast server: cannot release a hold, which is left to its TTL")
		return
	}
	c.orphans[o.key] = o
	if c.idle == nil {
		c.idle = make(chan struct{})
		go c.run(c.idle)
		return
	}
	invite(c.wake)
}

// forget ends the clean-up for an acquire that comes again.
func (c *cleaner) forget(key waiterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orphans, key)
}

// spare ends the clean-up of a hold that was renewed: somebody has found it by its lock ID, and
// uses it. Its place is given up all the same.
func (c *cleaner) spare(key waiterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.orphans[key]
	switch {
	case o == nil || o.unknown == 0:
	case o.q.Place.IsZero():
		delete(c.orphans, key)
	default:
		place := *o // the other may be under way
		place.q.HoldID, place.unknown = driver.HoldID{}, 0
		c.orphans[key] = &place
	}
}

// run releases until nothing is left.
func (c *cleaner) run(idle chan struct{}) {
	defer close(idle)
	for {
		batch, next, more := c.due(time.Now())
		if !more {
			return
		}
		if len(batch) == 0 {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-timer.C:
			case <-c.wake:
			case <-c.s.life.Done():
				timer.Stop()
				return
			}
			timer.Stop()
			continue
		}
		c.release(batch)
	}
}

// due returns those whose time has come, or else when that of the next one does.
func (c *cleaner) due(now time.Time) (batch []*orphan, next time.Time, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.orphans, func(_ waiterKey, o *orphan) bool { return o.pause > cleanFirst && now.After(o.until) })
	for _, o := range c.orphans {
		switch {
		case !o.due.After(now) && len(batch) < cleanBatch:
			batch = append(batch, o)
		case next.IsZero() || o.due.Before(next):
			next = o.due
		}
	}
	if len(c.orphans) == 0 {
		c.idle = nil
	}
	return batch, next, len(c.orphans) > 0
}

func (c *cleaner) release(batch []*orphan) {
	batch = c.unused(batch)
	if len(batch) == 0 {
		return
	}
	qs := make([]driver.ReleaseRequest, len(batch))
	for i, o := range batch {
		qs[i] = o.q
	}
	ctx, cancel := context.WithTimeout(c.s.life, c.s.opts.StoreTimeout)
	defer cancel()
	sent := time.Now()
	results, err := c.s.store.Release(ctx, qs)
	c.s.opts.Observer.storeCall(c.s.life, "release", sent, ofBatch(results, err))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range batch {
		if err == nil && i < len(results) && results[i].Err == nil {
			if results[i].Found {
				o.unknown--
			}
			if o.unknown <= 0 {
				if c.orphans[o.key] == o { // and not what a repeat has left since
					delete(c.orphans, o.key)
				}
				continue
			}
		}
		o.postpone()
	}
}

// unused returns what of the batch is still to be released: not the holds that were renewed,
// through another server or at the store, and not those whose acquires have come again. A
// renewal between this look and the release is not seen: then that program loses the lock, and
// learns it by its next renewal.
func (c *cleaner) unused(batch []*orphan) (left []*orphan) {
	var failed error
	for _, o := range batch {
		used := false
		if o.unknown > 0 && !o.endless && failed == nil {
			used, failed = c.isRenewed(o.q.HoldRef)
		}
		switch {
		case failed != nil:
			c.mu.Lock()
			o.postpone()
			c.mu.Unlock()
		case used:
			c.spare(o.key)
		default:
			left = append(left, o)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(left, func(o *orphan) bool { return c.orphans[o.key] != o })
}

// isRenewed reports whether the store has the hold, and it was renewed.
func (c *cleaner) isRenewed(ref driver.HoldRef) (bool, error) {
	ctx, cancel := context.WithTimeout(c.s.life, c.s.opts.StoreTimeout)
	defer cancel()
	h, err := c.s.find(ctx, driver.Filter{Resource: ref.Resource, LockID: ref.LockID}, ref.HoldID)
	return !h.Renewed.IsZero(), err
}

// postpone sets when the orphan is released again. c.mu is held.
func (o *orphan) postpone() {
	o.due = time.Now().Add(o.pause/2 + rand.N(o.pause))
	o.pause = min(2*o.pause, cleanLimit)
}

// close tries all once more at once, waits for a moment until all is released, and ends the
// releases.
func (c *cleaner) close() {
	timer := time.NewTimer(cleanClosing)
	defer timer.Stop()
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	for _, o := range c.orphans {
		o.due, o.pause = time.Now(), cleanFirst
	}
	c.mu.Unlock()
	if idle == nil {
		return
	}
	invite(c.wake)
	select {
	case <-idle:
	case <-timer.C:
		c.s.end()
		<-idle
		c.mu.Lock()
		defer c.mu.Unlock()
		c.s.opts.Logger.Warn("holdfast server: holds are left to their TTLs", "count", len(c.orphans))
	}
}
