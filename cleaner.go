package holdfast

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// An acquire that nobody waits for any more may have been granted, or may still be
// on its way: an orphan. The cleaner releases it by its hold ID, again and again,
// until it was found or can be in the way no more: after its TTL and its takeover
// delay, of each cleanMost at most. What arrives later still lives one TTL at most.
//
// A Client has one cleaner, with two lanes, each of which sends one batch at a
// time. What was in a batch that failed goes on in the second lane, in smaller
// batches each time: what makes them fail, or takes all the time there is, is soon
// alone and holds up nobody else.

const (
	// cleanMost is how long an orphan is cleaned up at most.
	cleanMost = 5 * time.Minute
	// cleanLimit is how long the cleaner pauses at most before it asks again.
	cleanLimit = 10 * time.Second
	// mostOrphans bounds the memory. Beyond it, one is let go for each that comes:
	// see letGo.
	mostOrphans = 10_000
	// rememberOrphans is for how long a refusal because of an orphan that is gone
	// may yet arrive: as long as an attempt takes.
	rememberOrphans = 10 * time.Second
	// copiesArrive is for how long a request that was doubled on its way may arrive
	// again: as long as an attempt takes.
	copiesArrive = 10 * time.Second
	// cleanClosing is how long the cleaner goes on after Close began: that has to
	// end by closePatience.
	cleanClosing = closePatience - time.Second
	// cleanCloseAsks is how often it asks then, with growing pauses from retryFirst
	// on: what was on its way when Close began arrives after the first time.
	cleanCloseAsks = 3
)

// cleaner is guarded by Client.mu.
type cleaner struct {
	orphans map[HoldID]*orphan
	lanes   [2]lane       // of those whose last release failed the second
	closeBy time.Duration // when it ends, since Close; 0: the Client is open
}

// lane sends batches, one at a time, as long as there is anything to be sent.
type lane struct {
	busy  bool // it has its goroutine
	rest  time.Duration
	fails backoff       // pauses after batches that failed, until rest
	kick  chan struct{} // something may have come
}

type orphan struct {
	ref    driver.HoldRef // without a token: it was never told
	single bool           // at most one attempt may yet be granted: once found, it is over
	held   bool           // it was granted, and only its release is unsure: any answer ends it
	// endless: what was granted has no end, so this has none before an answer.
	endless bool
	from    time.Duration // a release has a delay until then, which may not be cut short
	until   time.Duration // when it is over
	due     time.Duration // the next release; or, of one that is over, when to forget it
	pause   time.Duration
	limit   time.Duration // of pause
	over    bool
	share   int           // it may be in batches of up to so many: fewer after each that failed
	last    int           // releases that were answered since Close began
	asked   chan struct{} // closed after the first release
	told    bool          // asked is closed
}

func (o *orphan) tell() {
	if !o.told {
		o.told = true
		close(o.asked)
	}
}

func (o *orphan) lane() int {
	if o.share < batchSize {
		return 1
	}
	return 0
}

// stray is how long after an attempt of an acquire its late arrival, or what it was
// granted, may be in the way.
func stray(ttl, takeoverDelay time.Duration) time.Duration {
	return min(ttl, cleanMost) + min(takeoverDelay, cleanMost)
}

// end is when the orphan is over, answered or not.
func (o *orphan) end() time.Duration {
	if o.endless {
		return never
	}
	return o.until
}

// cleanUp has an acquire cleaned up whose attempts may yet be granted. The channel
// closes when the store was asked to for the first time. The caller is an operation
// that Close waits for.
func (c *Client) cleanUp(q driver.AcquireRequest, attempts int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	return c.adopt(&orphan{ref: ref, single: attempts == 1, from: now, until: now + stray(q.TTL, q.TakeoverDelay)})
}

// cleanStrays has attempts cleaned up that got no answer before the hold was
// granted to a later one: if one arrives now it is a new acquisition. A release
// with a delay has to run out first: it is matched by the same hold ID.
func (c *Client) cleanStrays(h *Hold, after time.Duration) {
	if h.stray == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := h.strays(c.clock() + after); o != nil {
		c.adopt(o)
	}
}

// strays is what may yet come of earlier attempts after that time, or nil.
func (h *Hold) strays(from time.Duration) *orphan {
	if from >= h.stray {
		return nil
	}
	ref := h.ref
	ref.Token = 0
	return &orphan{ref: ref, from: from, until: h.stray}
}

// cleanEndless has a hold without an end released whose release got no answer:
// nothing else would ever end it.
func (c *Client) cleanEndless(h *Hold, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return // nobody is left to do it
	}
	from := c.clock() + after
	c.adopt(&orphan{ref: h.ref, single: true, held: true, endless: true, from: from, until: from})
}

// cleanLost has a lost hold released that the store may have yet: for its margin,
// its takeover delay, a renewal that arrives late, or because it has no end. Nobody
// waits for that, for there may be many of them and a store that does not answer.
// c.mu is held, and Close has not passed by.
func (c *Client) cleanLost(h *Hold, after time.Duration) {
	from := c.clock() + after
	if o := h.strays(from); o != nil {
		c.adopt(o)
	}
	until := from + max(stray(h.ttl, h.delay), releasePatience)
	c.adopt(&orphan{ref: h.ref, single: true, held: true, endless: h.endless, from: from, until: until})
}

// adopt gives an orphan to the cleaner, which does for it also what it did for an
// earlier one of the same hold. c.mu is held.
func (c *Client) adopt(o *orphan) <-chan struct{} {
	k := &c.cleaner
	if was := k.orphans[o.ref.HoldID]; was != nil && !was.over {
		was.ref.Token = min(was.ref.Token, o.ref.Token) // 0 is that of any attempt
		was.single, was.held, was.endless = was.single && o.single, was.held && o.held, was.endless || o.endless
		was.from, was.until = max(was.from, o.from), max(was.until, o.until)
		return was.asked
	}
	if len(k.orphans) >= mostOrphans {
		k.letGo()
	}
	o.due, o.asked, o.share = o.from, make(chan struct{}), batchSize
	o.pause, o.limit = retryFirst, min(max((o.until-o.from)/8, retryFirst), cleanLimit)
	k.orphans[o.ref.HoldID] = o
	c.startLane(o.lane())
	return o.asked
}

// letGo forgets one orphan: of a few at random, as a map has them, one that the
// store was asked to release, if there is any, and one that ends by itself.
func (k *cleaner) letGo() {
	var victim *orphan
	looks := 0
	for _, o := range k.orphans {
		if victim == nil || victim.endless {
			victim = o
		}
		if o.told && !o.endless {
			victim = o
			break
		}
		if looks++; looks >= 20 && !victim.endless {
			break
		}
	}
	victim.tell()
	delete(k.orphans, victim.ref.HoldID)
}

// startLane lets the lane look again at what there is to do. c.mu is held.
func (c *Client) startLane(i int) {
	l := &c.cleaner.lanes[i]
	if l.busy {
		select {
		case l.kick <- struct{}{}:
		default:
		}
		return
	}
	*l = lane{busy: true, fails: retries(), kick: make(chan struct{}, 1)}
	c.work.Add(1)
	go c.clean(i, l.kick)
}

// clean is the goroutine of a lane.
func (c *Client) clean(i int, kick <-chan struct{}) {
	defer c.work.Done()
	closing := c.life.Done()
	for {
		batch, wait, left := c.nextBatch(i)
		if !left {
			return
		}
		if len(batch) > 0 {
			c.releaseBatch(i, batch)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-kick:
		case <-closing:
			closing = nil
		}
		timer.Stop()
	}
}

// nextBatch returns what the lane is to release now; or how long nothing is due;
// or that nothing is left, in which case the lane has ended.
func (c *Client) nextBatch(i int) (batch []*orphan, wait time.Duration, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, l, now := &c.cleaner, &c.cleaner.lanes[i], c.clock()
	closing := c.life.Err() != nil
	if closing && k.closeBy == 0 {
		k.closeBy = now + cleanClosing
		for _, o := range k.orphans {
			o.pause = retryFirst
			if o.held && !o.endless { // it ends by itself
				o.until = min(o.until, now+lastChance)
			}
		}
	}
	next := never
	for id, o := range k.orphans {
		switch {
		case o.lane() != i:
			continue
		case closing && (o.over || now >= k.closeBy || o.held && now >= o.end()), o.over && o.due <= now:
			o.tell()
			delete(k.orphans, id)
			continue
		case !o.over && (o.due <= now || closing && o.last == 0):
			batch = append(batch, o)
		}
		left = true
		next = min(next, o.due)
	}
	if l.busy = left; !left {
		return nil, 0, false
	}
	if l.rest > now {
		rest := l.rest
		if closing {
			rest = min(rest, k.closeBy)
		}
		return nil, rest - now, true
	}
	slices.SortFunc(batch, func(a, b *orphan) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.due, b.due))
	})
	for n, o := range batch {
		if n >= o.share {
			batch = batch[:n]
			break
		}
	}
	return batch, next - now, true
}

// releaseBatch asks the store once, and notes what came of it.
func (c *Client) releaseBatch(i int, batch []*orphan) {
	qs := make([]driver.ReleaseRequest, len(batch))
	call := &attempt{parent: context.Background(), client: c, timeout: releasePatience}
	c.mu.Lock()
	sent := c.clock()
	for n, o := range batch {
		qs[n] = driver.ReleaseRequest{HoldRef: o.ref, After: max(o.from-sent, 0)}
	}
	if by := c.cleaner.closeBy; by != 0 {
		call.detached = true // else it would have ended with the Client
		last := slices.MaxFunc(batch, func(a, b *orphan) int { return cmp.Compare(a.end(), b.end()) })
		call.timeout = max(min(by, last.end())-sent, time.Millisecond)
		if len(batch) > smallBatch || len(c.cleaner.orphans) > len(batch) {
			call.timeout /= 2 // one that cannot be released leaves time for others
		}
	}
	c.mu.Unlock()
	results, err := c.store.Release(call, qs)
	err = call.end(err)

	c.mu.Lock()
	defer c.mu.Unlock()
	l, now := &c.cleaner.lanes[i], c.clock()
	failed := false
	for n, o := range batch {
		// Whoever has retaken the lock holds it by another hold ID.
		err := outcome(results, err, n, func(r driver.ReleaseResult) error { return r.Err })
		found := err == nil && results[n].Found
		o.tell()
		if err == nil {
			o.endless = false
			if c.cleaner.closeBy != 0 {
				o.last++
			}
		}
		switch {
		case err != nil && sent < o.end():
			failed = true
			o.share, o.due = max(len(batch)/8, 1), now
		case found && o.single && !o.held && c.cleaner.closeBy == 0 && now < o.until:
			// A copy of the request, as something on the way makes one, may come yet.
			o.share, o.until = batchSize, min(o.until, now+copiesArrive)
			o.due = o.until
		case found && o.single, err == nil && o.held, sent >= o.until, o.last == cleanCloseAsks:
			o.share, o.over, o.due = batchSize, true, now+rememberOrphans
		default:
			o.share, o.due = batchSize, o.next(now)
		}
		if found {
			c.nudgeFirst(o.ref.Resource)
		}
		if o.lane() != i {
			c.startLane(o.lane())
		}
	}
	if l.rest = 0; failed {
		l.rest = now + l.fails.pause()
	} else {
		l.fails = retries()
	}
}

// next is when to ask again. What is due at about the same time is due together,
// as late as that makes it.
func (o *orphan) next(now time.Duration) time.Duration {
	grid := o.pause / 4
	due := (now + o.pause).Truncate(grid) + grid
	o.pause = min(2*o.pause, o.limit)
	return due
}

// onlyOrphans reports whether all that the lock ID has in the way are holds that
// are being cleaned up. c.mu is held.
func (c *Client) onlyOrphans(e *HeldError, lockID string) bool {
	found := false
	for _, s := range e.Holders {
		if s.LockID == lockID {
			if c.cleaner.orphans[s.HoldID] == nil {
				return false
			}
			found = true
		}
	}
	return found
}
