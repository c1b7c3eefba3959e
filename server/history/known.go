package history

import (
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// mostKnown bounds the holds that are kept in memory.
	mostKnown = 200_000
	// amendable is how long it is known that a hold ended and not how: its holder may tell that
	// it was lost.
	amendable = time.Hour
)

// key names a hold but for its token. A hold ID has one hold of a resource at a time.
type key struct {
	resource string
	hash     Hash
}

// known is a hold that has no end, or one that a look which is under way may still show.
type known struct {
	Hold
	alive time.Time // when it was there, by the last that the history knows
	over  time.Time // when its time is over at the latest, as the last look has shown it; zero if nobody knows
	late  bool      // that look has shown that its renewal was overdue
	shown uint64    // the number of that look
	noted time.Time // when its end was noted; zero if it has none
}

func (h *known) open() bool { return h.noted.IsZero() }

// began notes that the hold is there. It returns nil if that is no news, or cannot be noted: then
// the next look that shows the hold tries again. l.mu is held.
func (l *Log) began(s driver.Status, caller string, when Moment) *known {
	k := key{s.Resource, hashOf(s.HoldID)}
	h := l.known[k]
	switch {
	case h == nil:
	case h.Token > s.Token: // an answer that came late
		return nil
	case h.Token < s.Token:
		if h.open() && !l.end(h, Unknown, Moment{h.alive, when.By}) {
			return nil
		}
	case h.open(), h.How == Released, h.How == Forced: // it was repeated, or an answer came late
		return nil
	default: // it was not gone
		c := h.Hold
		c.How, c.Ended = "", Moment{}
		if !l.change(h, c) {
			return nil
		}
		return h
	}
	if len(l.known) >= mostKnown && when.By.Sub(l.forgot) > shortGap { // a look that is under way may show them still
		maps.DeleteFunc(l.known, func(_ key, h *known) bool { return !h.open() })
		l.forgot = time.Now()
	}
	if len(l.known) >= mostKnown {
		l.drop(1)
		return nil
	}
	l.number++
	h = &known{Hold: Hold{
		Number: l.number, Resource: s.Resource, Ref: wire.RefOf(s.HoldID), Token: s.Token, Mode: s.Mode, Limit: s.Limit, Details: s.Details,
		Began: when, Caller: caller, Hash: k.hash,
	}}
	if !l.push(h.Hold) {
		return nil
	}
	l.known[k] = h
	return h
}

// change notes that the hold is as c says. It reports whether that could be noted: if not, and it
// has ended, a look will show that it is gone. l.mu is held.
func (l *Log) change(h *known, c Hold) bool {
	if !l.push(c) {
		return false
	}
	h.Hold, h.noted = c, time.Time{}
	if c.How != "" {
		h.noted = time.Now()
		if !l.state.Looks { // nothing comes later that shows it
			delete(l.known, key{h.Resource, h.Hash})
		}
	}
	return true
}

func (l *Log) end(h *known, how How, when Moment) bool {
	if when.By.Before(when.After) {
		when.By = when.After
	}
	c := h.Hold
	c.How, c.Ended = how, when
	return l.change(h, c)
}

// ref returns the hold if the history knows it.
func (l *Log) ref(r driver.HoldRef) *known {
	h := l.known[key{r.Resource, hashOf(r.HoldID)}]
	if h == nil || r.Token != 0 && r.Token != h.Token {
		return nil
	}
	return h
}

// Granted notes that the server has granted the hold to the caller. The Log needs its Resource,
// HoldID, Mode, Limit, Token and Details. A grant that was repeated is noted once.
func (l *Log) Granted(s driver.Status, caller string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.began(s, caller, exactly(now)); h != nil {
		h.alive = now
	}
}

// Renewed notes a renewal that was sent to the store then. Nothing is written of it.
func (l *Log) Renewed(r driver.HoldRef, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.ref(r); h != nil && h.open() && sent.After(h.alive) {
		h.alive, h.over, h.late = sent, time.Time{}, false
	}
}

// Lost notes that a renewal has found no such hold. Only the end of a hold that the history knows
// is noted: renewals of what never was would fill it.
func (l *Log) Lost(r driver.HoldRef) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h := l.ref(r); {
	case h == nil:
	case h.open():
		l.end(h, Lost, Moment{h.alive, now})
	case h.How == Unknown:
		l.end(h, Lost, h.Ended)
	}
}

// Released notes that the holder has released the hold, by a request that was sent to the store
// then. When the answer comes, another may have been granted the resource elsewhere.
func (l *Log) Released(r driver.HoldRef, sent time.Time) {
	l.released(r, Hold{How: Released, Ended: exactly(sent)})
}

// Forced notes that somebody has released the hold by force, and why, as Released does.
func (l *Log) Forced(r driver.HoldRef, sent time.Time, by, reason string) {
	l.released(r, Hold{How: Forced, Ended: exactly(sent), By: by, Reason: reason})
}

func (l *Log) released(r driver.HoldRef, as Hold) {
	if r.HoldID.IsZero() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.ref(r)
	if h == nil { // another server has granted it, and no look has shown it yet
		h = l.began(driver.Status{Resource: r.Resource, HoldID: r.HoldID, Token: r.Token}, "", Moment{By: as.Ended.By})
	}
	if h == nil || h.How == Released || h.How == Forced {
		return
	}
	c := h.Hold // a look may have shown already that it is gone
	c.How, c.Ended, c.By, c.Reason = as.How, as.Ended, as.By, as.Reason
	l.change(h, c)
}
