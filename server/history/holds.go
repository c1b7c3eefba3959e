package history

import (
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// mostOpen bounds the holds that are kept in memory, and mostEnded those that have ended.
	mostOpen, mostEnded = 200_000, 20_000
	// endedFor is how long it is known that a hold has ended: its holder may notice late.
	endedFor = time.Hour
	// purgeEvery is the time between two purges at least.
	purgeEvery = 10 * time.Second
)

// holds are those of which the history has a beginning and no end, so that nothing is noted
// twice, and of each end it is known how long the hold was. Log.mu guards them.
type holds struct {
	open  map[key]*hold
	ended map[key]ended
	// sharing are the open holds of each resource that has some.
	sharing map[string]*sharing
	// newest are the holds of each resource that began last, since the last look began.
	newest map[string]newest

	purged time.Time // when it was tried last
}

// key names a hold but for its token. A hold ID has one hold at a time.
type key struct {
	resource string
	hash     Hash
}

type hold struct {
	Event               // with which it began
	lock      Hash      // of its lock ID; zero if nobody knows in this process
	known     time.Time // since when it is here: a look that began before may not show it
	began     time.Time // zero if that is not known
	renewed   time.Time // zero if it never was
	left      time.Duration
	leftAt    time.Time     // when it had that left; zero if nobody knows yet in this process
	idle      time.Duration // for how long it was not renewed by then
	alive     time.Time     // when it was there, by the last that is known
	next      time.Time     // when there was one that excludes it; zero if nobody knows of one
	lost      time.Time     // when its holder learned that it had ended, if the next look is to note that
	shown     uint64        // the number of the last look that has shown it
	restarted bool          // it is from before this process
	// pending: a look has shown the hold so early that this server may have granted it just
	// now. Its event waits for the next look, or for the hold's end.
	pending bool
}

// isOf reports whether the hold may be one of that lock ID.
func (hs *holds) isOf(k key, lockID string) bool {
	lock := hs.ended[k].lock
	if h, ok := hs.open[k]; ok {
		lock = h.lock
	}
	return lock == Hash{} || lock == hashOfLock(lockID)
}

type ended struct {
	token        uint64
	kind         Kind
	at           time.Time
	within, held time.Duration
	lock         Hash
}

// newest are the highest tokens of a resource.
type newest struct {
	token, exclusive uint64
	at               time.Time
}

func (e Event) key() key { return key{e.Resource, e.Hash} }

// init has the holds that were open when the process before ended.
func (hs *holds) init(open []Open) {
	hs.open, hs.ended = make(map[key]*hold, len(open)), make(map[key]ended)
	hs.sharing, hs.newest = make(map[string]*sharing), make(map[string]newest)
	for _, o := range open {
		e := o.Event
		h := &hold{Event: e, left: e.Left, next: o.Next, restarted: true}
		if e.Held != driver.Unknown {
			h.began = e.At.Add(-e.Held)
		}
		hs.open[e.key()] = h
		if h.next.IsZero() {
			hs.share(h)
		}
	}
}

// beginning returns the event with which a hold begins.
func beginning(kind Kind, at time.Time, h driver.Status) Event {
	return Event{
		At: at, Kind: kind, Resource: h.Resource, Ref: wire.RefOf(h.HoldID), Hash: hashOf(h.HoldID), Token: h.Token, Mode: h.Mode, Limit: h.Limit, Details: h.Details,
		Left: h.Left, Held: h.Age(), RenewedAgo: h.RenewedAgo(),
	}
}

// ending returns the event with which the hold ends. What is known of it is filled in by end.
func (h *hold) ending(kind Kind, at time.Time, within time.Duration) Event {
	return Event{
		Kind: kind, At: at, Within: within, Resource: h.Resource, Ref: h.Ref, Hash: h.Hash, Token: h.Token,
		Held: driver.Unknown, RenewedAgo: driver.Unknown,
	}
}

// begin takes in a hold that had that much left just now. It reports whether it is not there
// already. If there is another one of that hold ID, which has to be gone, it returns what is
// to be noted of that first.
func (hs *holds) begin(e Event, lockID string, now time.Time) (before []Event, fresh bool) {
	k, lock := e.key(), hashOfLock(lockID)
	if old, ok := hs.open[k]; ok {
		switch {
		case old.Token > e.Token && e.Kind == Seen:
			return nil, false // the look has listed it before
		case old.Token == e.Token:
			old.left, old.leftAt, old.idle, old.alive, old.lock = e.Left, now, 0, now, lock
			if fresh = old.pending && e.Kind == Granted; fresh {
				old.Event, old.pending, old.began = e, false, now
			}
			return nil, fresh
		}
		at := e.At
		if e.Held != driver.Unknown {
			at = at.Add(-e.Held)
		}
		kind := Gone
		if !old.lost.IsZero() {
			kind = Lost
		}
		end := old.ending(kind, at, driver.Unknown)
		before = hs.end(&end)
		before[len(before)-1].Held = driver.Unknown
	}
	if last, ok := hs.ended[k]; ok && last.token == e.Token && (last.kind == Released || last.kind == Forced) {
		return before, false // an answer that came late
	}
	delete(hs.ended, k)
	hs.noteNewest(e, now)
	if len(hs.open) >= mostOpen && now.Sub(hs.purged) > purgeEvery {
		hs.purged = now
		hs.purge(now)
	}
	if len(hs.open) < mostOpen {
		h := &hold{Event: e, lock: lock, known: now, left: e.Left, leftAt: now}
		if e.Kind == Granted {
			h.alive = now
		}
		if e.Held != driver.Unknown {
			h.began = now.Add(-e.Held)
		}
		hs.open[k] = h
		hs.share(h)
	}
	return before, true
}

// purge forgets holds whose time is over, if no look has done that.
func (hs *holds) purge(now time.Time) {
	maps.DeleteFunc(hs.open, func(_ key, h *hold) bool {
		over := h.left != driver.Forever && (h.leftAt.IsZero() || h.left == driver.Unknown || now.Sub(h.leftAt) > h.left)
		if over {
			hs.unshare(h)
		}
		return over
	})
}

func (hs *holds) renew(k key, sent time.Time, left time.Duration, now time.Time) {
	if h, ok := hs.open[k]; ok && h.next.IsZero() { // else its note has come late
		h.renewed, h.left, h.leftAt, h.idle = now, left, now, 0
		if sent.After(h.alive) {
			h.alive = sent
		}
	}
}

// end takes out the hold that e ends, and completes e by what is known of it. It returns what
// is to be noted of that: nothing if it is no news.
func (hs *holds) end(e *Event) (news []Event) {
	k := e.key()
	h, open := hs.open[k]
	last, was := hs.ended[k]
	lock := last.lock
	switch {
	case open && (e.Token == 0 || e.Token == h.Token):
		e.Token, e.Mode, e.Limit, e.Details = h.Token, h.Mode, h.Limit, h.Details
		e.At = h.beforeNext(e.At) // what is noted last may have happened first
		if e.Kind == Lost {
			e.Within = h.goneFor(e.At)
		}
		if e.Kind != Released && e.Kind != Forced && h.ofBefore() { // it may have ended long before
			h.began, h.renewed = time.Time{}, time.Time{}
		}
		if !h.began.IsZero() {
			e.Held = max(e.At.Sub(h.began), 0)
		}
		if !h.renewed.IsZero() {
			e.RenewedAgo = max(e.At.Sub(h.renewed), 0)
		}
		if h.pending {
			news = append(news, h.Event)
		}
		lock = h.lock
		delete(hs.open, k)
		hs.unshare(h)
	case was && (e.Token == 0 || e.Token == last.token):
		if e.Kind != Lost || last.kind != Gone && last.kind != Lapsed {
			return nil
		}
		e.Token, e.At, e.Within, e.Held = last.token, last.at, last.within, last.held
	case e.Kind == Lost:
		return nil // renewals of what never was would fill the history
	}
	if len(hs.ended) >= mostEnded {
		hs.forget(e.At)
	}
	hs.ended[k] = ended{e.Token, e.Kind, e.At, e.Within, e.Held, lock}
	return append(news, *e)
}

// forget forgets holds that have ended, some time ago if that is enough.
func (hs *holds) forget(now time.Time) {
	maps.DeleteFunc(hs.ended, func(_ key, was ended) bool { return now.Sub(was.at) > endedFor })
	if len(hs.ended) >= mostEnded {
		clear(hs.ended)
	}
}

// noteNewest takes note of a hold that begins.
func (hs *holds) noteNewest(e Event, now time.Time) {
	if len(hs.newest) >= mostOpen {
		clear(hs.newest)
	}
	n := hs.newest[e.Resource]
	n.at, n.token = now, max(n.token, e.Token)
	if e.Mode == driver.Exclusive {
		n.exclusive = max(n.exclusive, e.Token)
	}
	hs.newest[e.Resource] = n
}

// passed reports whether another hold has begun that excludes this one: it had ended by then. A
// look that takes long may show it all the same.
func (hs *holds) passed(h driver.Status) bool {
	n := hs.newest[h.Resource]
	return n.exclusive > h.Token || h.Mode == driver.Exclusive && n.token > h.Token
}

// forgetNewest forgets holds that began before a look did, and so before the next.
func (hs *holds) forgetNewest(look time.Time) {
	maps.DeleteFunc(hs.newest, func(_ string, n newest) bool { return n.at.Before(look) })
}
