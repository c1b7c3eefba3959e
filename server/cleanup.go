package server

import (
	"context"
	"maps"
	"math/rand/v2"
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
	orphans map[standing]*orphan
	busy    bool // a goroutine releases
	closed  bool
	wake    chan struct{} // one was added
	closing chan struct{}
	idle    chan struct{} // closed when the goroutine ends; nil: there is none
}

// orphan is what is left of an acquire.
type orphan struct {
	key     standing
	q       driver.ReleaseRequest
	endless bool      // the server itself renews the hold
	unknown int       // attempts that may be applied, now or later; 0: there is only a place
	until   time.Time // when the hold has ended by itself
	due     time.Time
	pause   time.Duration
}

func (c *cleaner) init(s *Server) {
	c.s, c.orphans = s, make(map[standing]*orphan)
	c.wake, c.closing = make(chan struct{}, 1), make(chan struct{})
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
	a.x.s.cleaner.add(&orphan{
		key: a.standing(), q: q, endless: a.q.TTL == driver.Forever, unknown: unknown,
		until: now.Add(min(a.q.TTL, cleanMost)), due: now, pause: cleanFirst,
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
	if !c.busy {
		c.busy, c.idle = true, make(chan struct{})
		go c.run(c.idle)
		return
	}
	invite(c.wake)
}

// forget ends the clean-up for an acquire that comes again.
func (c *cleaner) forget(key standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orphans, key)
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
			case <-c.closing:
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
	maps.DeleteFunc(c.orphans, func(_ standing, o *orphan) bool { return o.pause > cleanFirst && now.After(o.until) })
	for _, o := range c.orphans {
		switch {
		case !o.due.After(now) && len(batch) < cleanBatch:
			batch = append(batch, o)
		case next.IsZero() || o.due.Before(next):
			next = o.due
		}
	}
	if c.busy = len(c.orphans) > 0; !c.busy {
		c.idle = nil
	}
	return batch, next, c.busy
}

func (c *cleaner) release(batch []*orphan) {
	batch, qs := c.requests(batch)
	if len(qs) == 0 {
		return
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

// requests returns what is to be released now, and the requests for that. A hold that was
// renewed is spared: another program has found it by its lock ID, and uses it. So each hold is
// looked at. A renewal between the look and the release is not seen: then that program loses
// the lock, and learns it by its next renewal.
func (c *cleaner) requests(batch []*orphan) (now []*orphan, qs []driver.ReleaseRequest) {
	var err error
	by := time.Now().Add(c.s.opts.StoreTimeout)
	for _, o := range batch {
		q := o.q
		if o.unknown > 0 && !o.endless {
			var h driver.Status
			if err == nil {
				h, err = c.s.find(c.s.life, by, driver.Filter{Resource: q.Resource, LockID: q.LockID}, q.HoldID)
			}
			used := !h.Renewed.IsZero()
			if err != nil || used && q.Place.IsZero() {
				o.postpone()
				continue
			}
			if used {
				q.HoldID = driver.HoldID{} // the place alone
			}
		}
		now, qs = append(now, o), append(qs, q)
	}
	return now, qs
}

// postpone sets when the orphan is released again.
func (o *orphan) postpone() {
	o.due = time.Now().Add(o.pause/2 + rand.N(o.pause))
	o.pause = min(2*o.pause, cleanLimit)
}

// close waits for a moment until all is released, and ends the releases.
func (c *cleaner) close() {
	timer := time.NewTimer(cleanClosing)
	defer timer.Stop()
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-timer.C:
		close(c.closing)
		c.s.end()
		<-idle
		c.mu.Lock()
		defer c.mu.Unlock()
		c.s.opts.Logger.Warn("holdfast server: holds are left to their TTLs", "count", len(c.orphans))
	}
}
