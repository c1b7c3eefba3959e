package holdfast

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// An orphan is an acquire whose caller has given up, although it may have been
// granted or may still be on its way. The clean-up releases it by its hold ID, again
// and again, until the release finds it or it no longer can block: after its TTL and
// its takeover delay, of each cleanMost at most. An acquire that arrives later still
// lives for one TTL at most.
//
// A Client has two senders of such releases, each with one batch under way at a time.
// The releases of a batch that failed go to the second sender, so they delay nothing
// else.

const (
	// cleanMost is how long an orphan is cleaned up at most.
	cleanMost = 5 * time.Minute
	// cleanLimit is the longest pause between two releases of an orphan.
	cleanLimit = 10 * time.Second
	// mostOrphans bounds the memory. Beyond it, each new orphan displaces another:
	// see evict.
	mostOrphans = 10_000
	// copiesArrive is how long a copy of a request may still arrive: as long as an
	// attempt takes.
	copiesArrive = 10 * time.Second
	// cleanClosing is how long the clean-up goes on after Close began, which itself
	// ends by closePatience.
	cleanClosing = closePatience - time.Second
	// cleanCloseAsks is how often an orphan is released then, with growing pauses:
	// requests that were on their way when Close began may arrive after the first
	// release.
	cleanCloseAsks = 3
)

// cleaner is guarded by Client.mu.
type cleaner struct {
	orphans   map[HoldID]*orphan
	senders   [2]sender
	gathering bool // orphans of a Client that closes, for the last releases
}

func newCleaner() cleaner {
	return cleaner{orphans: make(map[HoldID]*orphan), senders: [2]sender{{fails: retries()}, {fails: retries()}}}
}

// sender has one batch of releases under way at a time.
type sender struct {
	busy  bool
	fails backoff.Backoff // pauses after batches that failed
	rest  time.Duration   // nothing is sent before
}

// orphan is what is cleaned up. Its request has no token if the store never returned
// it.
type orphan struct {
	release
	ends    endsBy
	endless bool          // what was granted has no end: only an answer ends the clean-up
	from    time.Duration // a release has a delay until then, which must not be cut short
	until   time.Duration // when the clean-up is over
	placing time.Duration // until when an attempt may take the request's place
	then    endsBy        // what ends the clean-up after that
	pause   time.Duration // before the next release
	waits   bool          // for Unlock, or until the lost hold would have ended otherwise
	asked   chan struct{} // closed after the first release
	told    bool          // asked is closed
}

// endsBy is what ends a clean-up before its time. The later ones are stricter.
type endsBy uint8

const (
	byAnswer  endsBy = iota // it was granted, and its release has no answer
	byFinding               // one attempt may yet be granted: once found, it is over
	byTime                  // several attempts may be, one after another
)

// tell wakes those that wait for the first release.
func (o *orphan) tell() {
	if !o.told {
		o.told = true
		close(o.asked)
	}
}

// sender returns the index of the sender that the orphan goes to.
func (o *orphan) sender() int {
	if o.share < batchSize {
		return 1
	}
	return 0
}

// end is when the orphan is over, answered or not.
func (o *orphan) end() time.Duration {
	if o.endless {
		return never
	}
	return o.until
}

// ended reports whether the last release has ended the clean-up.
func (o *orphan) ended() bool {
	return o.answered() && (o.ends == byAnswer || o.found && o.ends == byFinding)
}

// stray is how long after an attempt of an acquire its late arrival, or what it was
// granted, may block the resource.
func stray(ttl, takeoverDelay time.Duration) time.Duration {
	return min(ttl, cleanMost) + min(takeoverDelay, cleanMost)
}

// cleanUp cleans up an acquire whose attempts may still be granted. The channel
// closes after the first release. The caller is an operation that Close waits for.
func (c *Client) cleanUp(q driver.AcquireRequest, attempts int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := byFinding
	if attempts > 1 {
		ends = byTime
	}
	now := c.clock()
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	return c.addOrphan(ref, orphan{ends: ends, from: now, until: now + strayOf(q)})
}

// strayOf is stray of a request, and as long as it may take its place again.
func strayOf(q driver.AcquireRequest) time.Duration {
	d := stray(q.TTL, q.TakeoverDelay)
	if !q.Place.IsZero() {
		d = max(d, copiesArrive)
	}
	return d
}

// cleanStrays cleans up the attempts that got no answer before the hold was granted
// to a later one: if one arrives now it is a new acquisition. A release with a delay
// has to run out first, because it has the same hold ID. c.mu is held.
func (c *Client) cleanStrays(h *Hold, after time.Duration) {
	if h.stray == 0 {
		return
	}
	if from := c.clock() + after; from < h.stray {
		ref := h.ref
		ref.Token = 0
		c.addOrphan(ref, orphan{ends: byTime, from: from, until: h.stray})
		c.cleanPlace(ref.HoldID, h.place)
	}
}

// cleanPlace makes a clean-up take out a place, too, for as long as an attempt may arrive and
// take it. c.mu is held.
func (c *Client) cleanPlace(hold HoldID, place driver.PlaceID) {
	o := c.cleaner.orphans[hold]
	if o == nil || place.IsZero() {
		return
	}
	now := c.clock()
	if o.placing == 0 {
		o.then = o.ends
	}
	o.q.Place, o.placing = place, now+copiesArrive
	o.ends, o.until = byTime, max(o.until, o.placing)
	o.due, o.pause = min(o.due, now), min(o.pause, time.Second)
	c.arm(now, o.due)
}

// cleanEndless releases a hold without an end whose release got no answer: otherwise
// it would never end. c.mu is held.
func (c *Client) cleanEndless(h *Hold, after time.Duration) {
	from := c.clock() + after
	c.addOrphan(h.ref, orphan{endless: true, from: from, until: from})
}

// cleanLost releases a lost hold that the store may still have: for its margin or its
// takeover delay, because a renewal arrives late, or because it has no end. No caller
// waits for it: there may be many such holds, and the store may not answer. c.mu is
// held.
func (c *Client) cleanLost(h *Hold, after time.Duration) {
	c.cleanStrays(h, after)
	from := c.clock() + after
	until := from + max(stray(h.ttl, h.delay), releasePatience)
	c.addOrphan(h.ref, orphan{endless: h.endless, from: from, until: until})
}

// cleanForgotten releases a lost hold that a renewal without an answer may have left
// without an end, in case nobody calls Unlock. It does not take away the time that the
// hold would have had otherwise. c.mu is held.
func (c *Client) cleanForgotten(h *Hold) {
	from := c.clock() + c.marginOf(h.ttl) + h.delay
	c.addOrphan(h.ref, orphan{endless: true, waits: true, from: from, until: from})
}

// addOrphan begins a clean-up, or extends the one of the same hold ID. c.mu is held.
func (c *Client) addOrphan(ref driver.HoldRef, o orphan) <-chan struct{} {
	k := &c.cleaner
	if was := k.orphans[ref.HoldID]; was != nil {
		if was.waits { // until now
			was.waits, was.from, was.due = false, o.from, o.from
			c.arm(c.clock(), was.due)
		}
		was.q.Token = min(was.q.Token, ref.Token) // 0 is that of any attempt
		was.ends, was.endless = max(was.ends, o.ends), was.endless || o.endless
		was.from, was.until = max(was.from, o.from), max(was.until, o.until)
		return was.asked
	}
	if len(k.orphans) >= mostOrphans {
		k.evict()
	}
	o.release = release{q: driver.ReleaseRequest{HoldRef: ref}, share: batchSize, due: o.from}
	o.pause, o.asked = retryFirst, make(chan struct{})
	k.orphans[ref.HoldID] = &o
	if c.closed {
		c.cleanLast()
	} else {
		c.arm(c.clock(), o.due)
	}
	return o.asked
}

// evict forgets one orphan. Of a few at random, as a map yields them, it prefers one
// that was released at least once and ends by itself, then one that ends by itself.
func (k *cleaner) evict() {
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
	delete(k.orphans, victim.q.HoldID)
}

// cleanUpDue sends the releases that are due, and returns when to look again. c.mu
// is held.
func (c *Client) cleanUpDue(now time.Duration) (next time.Duration) {
	k := &c.cleaner
	next = never
	var due [len(k.senders)][]*release
	for _, o := range k.orphans {
		switch i := o.sender(); {
		case o.due > now:
			next = min(next, o.due)
		case !k.senders[i].busy: // else its answer arms the timer
			o.q.After = max(o.from-now, 0)
			due[i] = append(due[i], &o.release)
		}
	}
	for i, rs := range due {
		s := &k.senders[i]
		switch {
		case len(rs) == 0:
		case s.rest > now:
			next = min(next, s.rest)
		default:
			s.busy = true
			c.work.Add(1)
			slices.SortFunc(rs, func(a, b *release) int { return cmp.Compare(a.due, b.due) })
			batch := nextBatch(rs)
			go c.clean(s, batch, requests(batch), now)
		}
	}
	return next
}

// clean sends one batch.
func (c *Client) clean(s *sender, batch []*release, qs []driver.ReleaseRequest, sent time.Duration) {
	defer c.work.Done()
	call := &attempt{parent: context.Background(), client: c, timeout: releasePatience}
	results, err := c.store.Release(call, qs)
	err = call.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	if s.busy, s.rest = false, 0; note(batch, results, err) {
		s.rest = now + s.fails.Next()
	} else {
		s.fails = retries()
	}
	for _, r := range batch {
		if o := c.cleaner.orphans[r.q.HoldID]; o != nil && &o.release == r { // else it was let go
			if o.released(sent, now) {
				delete(c.cleaner.orphans, r.q.HoldID)
			}
		}
		if r.found {
			c.inviteFirst(r.q.Resource)
		}
	}
	c.arm(now, max(now, s.rest))
}

// released notes that a release was sent then. It decides when the next is due, or reports
// that the clean-up is over.
func (o *orphan) released(sent, now time.Duration) (over bool) {
	o.tell()
	o.endless = o.endless && !o.answered()
	if o.placing != 0 {
		if o.found && o.then == byFinding {
			o.then = byAnswer // it was the only attempt
		}
		if sent >= o.placing {
			o.q.Place, o.placing, o.ends = driver.PlaceID{}, 0, o.then
		}
	}
	switch {
	case !o.answered() && sent < o.end():
		o.due = now
	case o.ended() && o.ends == byFinding && now < o.until:
		// A copy of the request, made on the way to the store, may still arrive.
		o.until = min(o.until, now+copiesArrive)
		o.due = o.until
	case o.ended(), sent >= o.until:
		return true
	default:
		// What is due at about the same time is sent together.
		grid := o.pause / 4
		o.due = (now + o.pause).Truncate(grid) + grid
		o.pause = min(2*o.pause, max((o.until-o.from)/8, retryFirst), cleanLimit)
		if o.placing != 0 { // a place keeps a free resource from others
			o.pause = min(o.pause, time.Second)
		}
	}
	return false
}

// cleanLast releases the orphans of a Client that closes, cleanCloseAsks times at
// most. Those that come within a moment are released together. c.mu is held.
func (c *Client) cleanLast() {
	k := &c.cleaner
	if k.gathering || len(k.orphans) == 0 {
		return
	}
	k.gathering = true
	began := c.elapsed()
	c.work.Go(func() { // the caller is among the work
		time.Sleep(retryFirst)
		c.mu.Lock()
		var left []*orphan
		for _, o := range k.orphans {
			o.tell()
			last := *o // the answer to one that is under way is ignored
			last.by = c.cleanBy
			if last.ends == byAnswer && !last.endless {
				last.by = min(last.by, began+lastChance) // it ends by itself
			}
			left = append(left, &last)
		}
		clear(k.orphans)
		k.gathering = false
		c.mu.Unlock()
		for n := range cleanCloseAsks {
			time.Sleep(time.Duration(2*n) * retryFirst)
			rs := make([]*release, len(left))
			for i, o := range left {
				o.q.After = max(o.from-c.clock(), 0)
				rs[i] = &o.release
			}
			c.releaseAll(context.Background(), rs)
			left = slices.DeleteFunc(left, func(o *orphan) bool { return o.ended() || o.by <= c.elapsed() })
			if len(left) == 0 {
				return
			}
		}
	})
}
