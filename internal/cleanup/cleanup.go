// Package cleanup releases holds and places: for callers that wait for the release, and in
// the background for acquires and releases without an answer.
//
// An acquire whose caller has given up leaves an orphan: it may have been granted, or may
// still arrive. A Cleaner releases the orphan by its hold ID again and again, until a release
// finds it or until it can no longer block: after its TTL and its takeover delay, at most 5
// minutes each, and after the same time once more while there is no answer. An acquire that
// arrives later lives for at most one TTL.
//
// All methods may be called concurrently. They call neither the store nor the functions of
// Config under the mutex.
package cleanup

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

const (
	// most is the longest time for which an orphan is released again and again.
	most = 5 * time.Minute
	// pauseLimit is the longest pause between two releases of an orphan, and placeLimit the
	// longest if the orphan may have taken a place, which blocks a free resource.
	pauseLimit = 10 * time.Second
	placeLimit = time.Second
	// MostOrphans limits the memory. Each further orphan displaces another one: see evict.
	MostOrphans = 10_000
	// CopiesArrive is how long a copy of a request may still arrive: as long as an attempt
	// takes.
	CopiesArrive = 10 * time.Second
	// closingAsks is how often an orphan is released after Close, with growing pauses:
	// requests that were under way may arrive after the first release.
	closingAsks = 3
)

// Config configures a Cleaner.
type Config struct {
	Scope *storecall.Scope
	// Send calls the store's Release.
	Send func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error)
	// Used, if set, reports whether a hold is in use after all. It is called before each
	// release of an orphan that may be granted and has an end.
	Used func(context.Context, driver.HoldRef) (bool, error)
	// Freed, if set, is called after a release in the background has found a hold.
	Freed func(resource string)
	// Batch is the largest number of orphans in a request. 0 means batchSize.
	Batch int
}

// Cleaner releases holds and places of one store.
type Cleaner struct {
	Config

	mu      sync.Mutex
	orphans map[driver.HoldRef]*orphan // by Ref without its token
	run     int                        // the number of the running goroutine; 0 if there is none
	runs    int                        // how many goroutines there were
	sending bool                       // the goroutine sends, and does not wait
	wake    chan struct{}              // signals that something is due earlier
	again   bool                       // a batch of failed releases is under way
	fails   backoff.Backoff            // the pauses before the next such batch
	rest    time.Duration              // when the pause ends
	closed  bool
	by      time.Duration // when the clean-ups end after Close
}

// New returns a Cleaner. Its goroutine runs while there are orphans.
func New(cfg Config) *Cleaner {
	cfg.Batch = cmp.Or(cfg.Batch, batchSize)
	return &Cleaner{
		Config: cfg, fails: storecall.Retries(),
		orphans: make(map[driver.HoldRef]*orphan), wake: make(chan struct{}, 1),
	}
}

// Orphan is a hold or place that may be left in the store.
type Orphan struct {
	// Ref identifies the hold. Its Token is 0 if the store never returned it.
	Ref driver.HoldRef
	// Attempts is how many acquires may still be granted. It is 0 if the hold was granted and
	// its release had no answer. If it is 1, the clean-up ends once the hold was found.
	Attempts int
	// Place is the place that the acquires would take again: see TakeOut. With PlaceOnly only
	// the place is released.
	Place     driver.PlaceID
	PlaceOnly bool
	// Endless says that the hold may have no end: only an answer ends the clean-up.
	Endless bool
	// From is when the orphan is released first. Earlier releases leave it until then, so as
	// not to shorten a delay. Until is when the clean-up ends.
	From, Until time.Duration
	// Waits delays the clean-up until From, unless another clean-up of the same hold is
	// added.
	Waits bool
}

// orphan is an Orphan that is being cleaned up.
type orphan struct {
	Orphan
	release
	key     driver.HoldRef
	ends    endsBy
	span    time.Duration // how long an attempt that arrives may block
	due     time.Duration // when it is released next
	placing time.Duration // until when an attempt may take the given-up place; 0 if there is none
	then    endsBy        // what ends the clean-up after placing
	pause   time.Duration // before the next release
	asks    int           // answers since Close
	last    time.Duration // when the clean-up gives up after Close
	asked   chan struct{} // closed after the first release
	told    bool          // asked is closed
}

// endsBy is what ends a clean-up before its time. Later values are stricter.
type endsBy uint8

const (
	byAnswer  endsBy = iota // it was granted, and its release had no answer
	byFinding               // one attempt may still be granted: once found, it is over
	byTime                  // several attempts may be granted, one after another
)

// tell wakes the callers that wait for the first release.
func (o *orphan) tell() {
	if !o.told {
		o.told = true
		close(o.asked)
	}
}

// ended reports whether the last release has ended the clean-up.
func (o *orphan) ended() bool {
	return o.answered() && (o.ends == byAnswer || o.found && o.ends == byFinding)
}

// StrayTime returns how long an attempt that arrives late, or its grant, may block the
// resource or take its place again.
func StrayTime(q driver.AcquireRequest) time.Duration {
	d := min(q.TTL, most) + min(q.TakeoverDelay, most)
	if q.TTL == driver.Forever {
		d = most + min(q.TakeoverDelay, most)
	}
	if !q.Place.IsZero() {
		d = max(d, CopiesArrive)
	}
	return d
}

func keyOf(ref driver.HoldRef) driver.HoldRef {
	ref.Token = 0
	return ref
}

// Add begins a clean-up, or extends the clean-up of the same hold. The channel is closed
// after the first release.
func (c *Cleaner) Add(o Orphan) (asked <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ends := keyOf(o.Ref), endsBy(min(o.Attempts, int(byTime)))
	if was := c.orphans[key]; was != nil && was.PlaceOnly == o.PlaceOnly {
		if was.Waits { // until now
			was.Waits, was.From, was.due = false, o.From, o.From
		}
		was.q.Token = min(was.q.Token, o.Ref.Token) // 0 matches any attempt
		was.ends, was.Endless = max(was.ends, ends), was.Endless || o.Endless
		was.From, was.Until, was.span = max(was.From, o.From), max(was.Until, o.Until), max(was.span, o.Until-o.From)
		was.Place = cmp.Or(o.Place, was.Place)
		c.hasten()
		return was.asked
	}
	if len(c.orphans) >= MostOrphans {
		c.evict()
	}
	n := &orphan{
		Orphan: o, key: key, ends: ends, span: o.Until - o.From, due: o.From, pause: storecall.RetryFirst, asked: make(chan struct{}),
		release: release{q: driver.ReleaseRequest{HoldRef: o.Ref}, share: batchSize},
	}
	n.release.orphan = n
	if o.PlaceOnly {
		n.q.HoldID, n.q.Place = driver.HoldID{}, o.Place
	}
	if c.closed {
		n.close(c.Scope.Clock(), c.by)
	}
	c.orphans[key] = n
	c.hasten()
	return n.asked
}

// GiveUp releases a place that no waiter uses any more, and no hold. ref identifies its
// waiter.
func (c *Cleaner) GiveUp(ref driver.HoldRef, place driver.PlaceID) {
	now := c.Scope.Clock()
	c.Add(Orphan{Ref: ref, Place: place, PlaceOnly: true, From: now, Until: now + driver.FairPlaceTTL})
}

// TakeOut gives up a place that no new attempt will use. Attempts that are under way would
// take it again: their clean-ups release it too, for as long as they may arrive.
func (c *Cleaner) TakeOut(place driver.PlaceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.orphans) == 0 {
		return
	}
	now := c.Scope.Clock()
	for _, o := range c.orphans {
		if o.Place != place || o.PlaceOnly {
			continue
		}
		if o.placing == 0 {
			o.then = o.ends
		}
		o.q.Place, o.placing = place, now+CopiesArrive
		o.ends, o.Until = byTime, max(o.Until, o.placing)
		o.due, o.pause = min(o.due, now), min(o.pause, placeLimit)
	}
	c.hasten()
}

// NotBefore delays the clean-up of the hold, if there is one, until the given time.
func (c *Cleaner) NotBefore(ref driver.HoldRef, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.orphans[keyOf(ref)]; o != nil {
		o.From = max(o.From, at)
	}
}

// Forget ends a clean-up because the acquire has come again.
func (c *Cleaner) Forget(ref driver.HoldRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orphans, keyOf(ref))
}

// Spare ends the clean-up of a hold that is in use after all. Its place is still released.
func (c *Cleaner) Spare(ref driver.HoldRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.orphans[keyOf(ref)]
	switch {
	case o == nil || o.PlaceOnly:
	case o.placing == 0:
		delete(c.orphans, o.key)
	default:
		place := *o // a copy, because the old one may be under way
		place.release.orphan = &place
		place.PlaceOnly, place.ends, place.then, place.q.HoldID = true, byAnswer, byAnswer, driver.HoldID{}
		c.orphans[o.key] = &place
	}
}

// Len returns the number of clean-ups.
func (c *Cleaner) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.orphans)
}

// Close makes the clean-ups end by the given time. Each orphan, also a later one, is released
// soon and up to three times. Close does not wait.
func (c *Cleaner) Close(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed, c.by, c.rest = true, by, 0
	now := c.Scope.Clock()
	for key, o := range c.orphans {
		last := *o // a copy: answers to the old one are ignored
		last.release.orphan = &last
		last.close(now, by)
		o.told = true
		c.orphans[key] = &last
	}
	if c.again = false; c.sending {
		c.run = 0 // a call under way delays nothing
	}
	c.hasten()
}

// close schedules the release of the orphan in a moment, together with others.
func (o *orphan) close(now, by time.Duration) {
	o.tell() // its callers wait no longer
	o.due, o.last = now+storecall.RetryFirst, by
	if o.ends == byAnswer && !o.Endless {
		o.last = min(by, now+storecall.LastChance) // it expires
	}
}

// evict drops one orphan. Among a few random ones it prefers one that was released at least
// once and expires, then one that expires.
func (c *Cleaner) evict() {
	var victim *orphan
	looks := 0
	for _, o := range c.orphans {
		if victim == nil || victim.Endless {
			victim = o
		}
		if o.told && !o.Endless {
			victim = o
			break
		}
		if looks++; looks >= 20 && !victim.Endless {
			break
		}
	}
	victim.tell()
	delete(c.orphans, victim.key)
}

// hasten makes the goroutine check what is due, and starts it if there is none. c.mu is held.
func (c *Cleaner) hasten() {
	if c.run == 0 && len(c.orphans) > 0 {
		run := c.runs + 1
		if c.Scope.Go(func() { c.cleanUp(run) }) {
			c.run, c.runs = run, run
		}
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cleanUp releases due orphans until none is left. Failed releases are sent in parallel, one
// batch at a time, so that they delay nothing else.
func (c *Cleaner) cleanUp(run int) {
	for {
		batch, qs, pause, more := c.next(run)
		switch {
		case !more:
			return
		case len(batch) == 0:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-c.wake:
			}
			timer.Stop()
		case batch[0].share < batchSize:
			c.Scope.Go(func() { c.clean(batch, qs, true) })
		default:
			c.clean(batch, qs, false)
		}
	}
}

// next returns the next batch, or how long to wait for it. more is false if the goroutine has
// to end.
func (c *Cleaner) next(run int) (batch []*release, qs []driver.ReleaseRequest, pause time.Duration, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run != run {
		return nil, nil, 0, false
	}
	now := c.Scope.Clock()
	if c.sending = false; len(c.orphans) == 0 || c.closed && now >= c.by {
		c.run = 0
		return nil, nil, 0, false
	}
	next := now + pauseLimit // timers do not count the time that the machine sleeps
	if c.closed {
		next = min(next, c.by)
	}
	var again []*release
	for _, o := range c.orphans {
		switch {
		case o.share < batchSize && c.again: // its answer wakes this goroutine
		case o.due > now:
			next = min(next, o.due)
		case o.share == batchSize:
			batch = append(batch, &o.release)
		case c.rest > now:
			next = min(next, c.rest)
		default:
			again = append(again, &o.release)
		}
	}
	// Failed releases go first: they go beside the others.
	if c.sending = len(batch) > 0 && len(again) == 0; !c.sending {
		batch = again
		c.again = c.again || len(again) > 0
	}
	slices.SortFunc(batch, func(a, b *release) int { return cmp.Compare(a.orphan.due, b.orphan.due) })
	batch = nextBatch(batch)
	batch = batch[:min(len(batch), c.Batch)]
	for _, r := range batch {
		r.q.After = max(r.orphan.From-now, 0)
	}
	return batch, requests(batch), next - now, true
}

// clean sends one batch. again says that its releases have failed before.
func (c *Cleaner) clean(batch []*release, qs []driver.ReleaseRequest, again bool) {
	sent := c.Scope.Clock()
	var err error
	if c.Used != nil {
		batch, qs, err = c.unused(batch)
	}
	var results []driver.ReleaseResult
	if err == nil && len(batch) > 0 {
		sent = c.Scope.Clock()
		call := c.call(batch, sent)
		results, err = c.Send(call, qs)
		err = call.End(err)
	}
	for _, resource := range c.noteBatch(batch, results, err, sent, again) {
		if c.Freed != nil {
			c.Freed(resource)
		}
	}
}

// call returns the context for a call with the batch. After Close, Scope.Life may have ended.
func (c *Cleaner) call(batch []*release, now time.Duration) *storecall.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := &storecall.Context{Parent: context.Background(), Scope: c.Scope, Timeout: Patience}
	if !c.closed {
		return call
	}
	last := now
	for _, r := range batch {
		last = max(last, r.orphan.last)
	}
	call.Detached, call.Timeout = true, last-now
	if len(batch) > smallBatch || len(batch) < len(c.orphans) {
		call.Timeout /= 2 // a release that cannot succeed leaves time for others
	}
	return call
}

// noteBatch notes the answers to a batch and returns the freed resources.
func (c *Cleaner) noteBatch(batch []*release, results []driver.ReleaseResult, err error, sent time.Duration, again bool) (freed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Scope.Clock()
	switch failed := note(batch, results, err); {
	case failed && (again || c.rest == 0): // new failures do not delay old ones
		c.rest = now + c.fails.Next()
	case again:
		c.rest, c.fails = 0, storecall.Retries()
	}
	if again {
		c.again = false
		defer c.hasten()
	}
	for _, r := range batch {
		if o := r.orphan; c.orphans[o.key] == o && c.over(o, sent, now) { // otherwise it was dropped
			delete(c.orphans, o.key)
		}
		if r.found {
			freed = append(freed, r.q.Resource)
		}
	}
	return freed
}

// over notes that the orphan's release was sent at the given time. It schedules the next
// release, or reports that the clean-up has ended. c.mu is held.
func (c *Cleaner) over(o *orphan, sent, now time.Duration) bool {
	o.tell()
	o.Endless = o.Endless && !o.answered()
	if o.placing != 0 {
		if o.found && o.then == byFinding {
			// It was the only attempt, but a copy of it may still arrive.
			o.then, o.Until = byTime, min(o.Until, max(o.placing, now+CopiesArrive))
		}
		if sent >= o.placing && (o.answered() || sent >= o.placing+driver.FairPlaceTTL) {
			o.q.Place, o.placing, o.ends = driver.PlaceID{}, 0, o.then
		}
	}
	if c.closed {
		if o.answered() {
			o.asks++
		}
		o.due = now + time.Duration(2*o.asks)*storecall.RetryFirst
		return o.ended() || o.asks >= closingAsks || now >= o.last
	}
	last := o.Until
	if o.ends != byAnswer {
		last += o.span // an attempt that arrived just before blocks for as long again
	}
	if o.placing != 0 {
		last = max(last, o.placing+driver.FairPlaceTTL)
	}
	switch {
	case !o.answered() && (o.Endless || sent < last):
		o.due = now
	case o.ended() && o.ends == byFinding && now < o.Until:
		// A copy of the request that the network made may still arrive.
		o.Until = min(o.Until, now+CopiesArrive)
		o.due = o.Until
	case o.ended(), sent >= o.Until:
		return true
	default:
		// Releases that are due at about the same time are sent together.
		grid := o.pause / 4
		o.due = (now + o.pause).Truncate(grid) + grid
		o.pause = min(2*o.pause, max((o.Until-o.From)/8, storecall.RetryFirst), pauseLimit)
		if o.placing != 0 {
			o.pause = min(o.pause, placeLimit)
		}
	}
	return false
}

// unused returns the part of the batch that is still to be released, without holds that are
// in use and orphans that were dropped. A use that begins between the check and the release
// goes unnoticed: that program loses the lock and learns of it at its next renewal.
func (c *Cleaner) unused(batch []*release) (left []*release, qs []driver.ReleaseRequest, failed error) {
	c.mu.Lock()
	var unknown []driver.HoldRef
	for _, r := range batch {
		if o := r.orphan; o.ends != byAnswer && !o.Endless && !o.PlaceOnly {
			unknown = append(unknown, o.Ref)
		}
	}
	c.mu.Unlock()
	for _, ref := range unknown {
		call := c.call(batch, c.Scope.Clock())
		used, err := c.Used(call, ref)
		if failed = call.End(err); failed != nil {
			break // the others would wait for a store that does not answer
		}
		if used {
			c.Spare(ref)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left = slices.DeleteFunc(batch, func(r *release) bool { return c.orphans[r.orphan.key] != r.orphan })
	return left, requests(left), failed
}
