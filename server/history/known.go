package history

import (
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// mostKnown bounds the holds that are kept in memory, and those that wait to be written.
	mostKnown = 200_000
	// amendable is how long it is known that a hold ended and not how: its holder may tell that
	// it was lost.
	amendable = time.Hour
)

// key names a hold but for its token. A hold ID has one hold of a resource at a time.
type key struct{ resource, hash string }

// known is a hold that has no end, or one that a look which is under way may still show.
type known struct {
	Hold
	dirty bool      // it has changed since it was written
	alive time.Time // when it was there, by the last that the history knows
	over  time.Time // when its time is over, if the last look has shown that its renewal was overdue; else zero
	shown uint64    // the number of that look
	noted time.Time // when its end was noted; zero if it has none
}

func (h *known) open() bool { return h.noted.IsZero() }

// Granted notes that the server has granted the hold to a caller, in whose share it counts. The Log
// needs its Resource, HoldID, Mode, Limit, Token and Details. A repeated grant is noted once.
func (l *Log) Granted(s driver.Status, share string) {
	now := time.Now()
	l.note(1, func() {
		if h := l.began(s, share, exactly(now)); h != nil {
			h.alive = now
		}
	})
}

// Renewed notes a renewal that was sent to the store then. Nothing is written of it.
func (l *Log) Renewed(r driver.HoldRef, sent time.Time) {
	l.note(0, func() {
		if h := l.ref(r); h != nil && h.open() && sent.After(h.alive) {
			h.alive, h.over = sent, time.Time{}
		}
	})
}

// Lost notes that a renewal has found no such hold. Only the end of a hold that the history knows
// is noted: renewals of what never was would fill it.
func (l *Log) Lost(r driver.HoldRef) {
	now := time.Now()
	l.note(1, func() {
		switch h := l.ref(r); {
		case h == nil:
		case h.open():
			l.end(h, Lost, Moment{h.alive, now})
		case h.How == Unknown:
			l.end(h, Lost, h.Ended)
		}
	})
}

// Released notes that the holder has released the hold, by a request that was sent to the store
// then. When the answer comes, another may have been granted the resource elsewhere.
func (l *Log) Released(r driver.HoldRef, sent time.Time) { l.released(r, sent, Released, "", "") }

// Forced notes that somebody has released the hold by force, and why, as Released does.
func (l *Log) Forced(r driver.HoldRef, sent time.Time, by, reason string) {
	l.released(r, sent, Forced, by, reason)
}

func (l *Log) released(r driver.HoldRef, sent time.Time, how How, by, reason string) {
	if r.HoldID.IsZero() {
		return
	}
	l.note(1, func() {
		h := l.ref(r)
		if h == nil { // another server has granted it, and no look has shown it yet
			h = l.began(driver.Status{Resource: r.Resource, HoldID: r.HoldID, Token: r.Token}, "", Moment{By: sent})
		}
		if h != nil && h.How != Released && h.How != Forced { // a look may have shown already that it is gone
			h.By, h.Reason = by, reason
			l.end(h, how, exactly(sent))
		}
	})
}

// ref returns the hold if the history knows it.
func (l *Log) ref(r driver.HoldRef) *known {
	h := l.known[key{r.Resource, hashOf(r.HoldID)}]
	if h == nil || r.Token != 0 && r.Token != h.Token {
		return nil
	}
	return h
}

// began notes that the hold is there. It returns nil if that is no news, if the hold is one of
// Holdfast itself, or if there is no room: then the next look that shows the hold tries again.
func (l *Log) began(s driver.Status, share string, when Moment) *known {
	if driver.Internal(s.Resource) {
		return nil
	}
	k := key{s.Resource, hashOf(s.HoldID)}
	switch h := l.known[k]; {
	case h == nil:
	case h.Token == s.Token && (h.How == Lost || h.How == Unknown): // it was not gone
		h.How, h.Ended, h.noted = "", Moment{}, time.Time{}
		l.changed(h)
		return h
	case h.Token >= s.Token: // it was repeated, or an answer came late
		return nil
	case h.open():
		l.end(h, Unknown, Moment{h.alive, when.By})
	}
	if len(l.known) >= mostKnown && when.By.Sub(l.forgot) > shortGap { // a look that is under way may show them still
		maps.DeleteFunc(l.known, func(_ key, h *known) bool { return !h.open() })
		l.forgot = time.Now()
	}
	if len(l.known) >= mostKnown || len(l.dirty) >= mostKnown {
		l.drop(1)
		return nil
	}
	l.number++
	h := &known{Hold: Hold{
		Number: l.number, Resource: s.Resource, Ref: wire.RefOf(s.HoldID), Token: s.Token, Mode: s.Mode, Limit: s.Limit, Details: s.Details,
		Began: when, Share: share, Hash: k.hash,
	}}
	l.known[k] = h
	l.changed(h)
	return h
}

// end notes how and when the hold ended, in place of what was noted before.
func (l *Log) end(h *known, how How, when Moment) {
	if when.By.Before(when.After) {
		when.By = when.After
	}
	h.How, h.Ended, h.noted = how, when, time.Now()
	if !l.state.Looks { // nothing comes later that shows it
		delete(l.known, key{h.Resource, h.Hash})
	}
	l.changed(h)
}

// changed makes the hold one that is to be written.
func (l *Log) changed(h *known) {
	if !h.dirty {
		h.dirty = true
		l.dirty = append(l.dirty, h)
	}
}
