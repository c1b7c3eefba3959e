package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Acquire decides about the request. changed says that the returned record is to be stored; a
// repeat of a grant leaves the record as it is. A refusal is a *driver.HeldError with the
// holds and the places ahead before the call, in all stores. It changes only the queue. That
// change may be left out, and wakes nobody.
func Acquire(r Record, now Time, q driver.AcquireRequest) (_ Record, g driver.Grant, changed bool, err error) {
	for _, h := range r.Holds {
		if h.LockID == q.LockID && h.HoldID == q.HoldID && h.live(now) && !h.Released {
			return r, driver.Grant{Token: h.Token, Left: h.End.Until(now)}, false, nil
		}
	}
	if inTheWay(&r, now, &q) {
		refused := Refused(r, now, q)
		var places []Place
		if refused.BySelf {
			places = livePlaces(r.Places, now)
		} else {
			places, refused.Position, changed = r.queue(now, &q)
		}
		refused.Waiters = len(places)
		if changed {
			r = r.touched(now, r.Holds)
			r.Places = places
		}
		return r, driver.Grant{}, changed, refused
	}
	token, err := nextToken(r, now)
	if err != nil {
		return r, driver.Grant{}, false, err
	}
	holds := make([]Hold, 0, len(r.Holds)+1)
	for _, h := range r.Holds {
		if h.blocks(now) {
			holds = append(holds, h)
		}
	}
	end := now.plus(q.TTL)
	r = r.touched(now, append(holds, Hold{
		LockID: q.LockID, HoldID: q.HoldID, Mode: q.Mode, Limit: q.Limit, Token: token, Details: q.Details,
		Created: now, End: end, TakeoverDelay: q.TakeoverDelay,
	}))
	r.Token = token
	r.Places = without(livePlaces(r.Places, now), q.Place)
	return r, driver.Grant{Token: token, Left: end.Until(now)}, true, nil
}

// inTheWay reports whether the blocking holds, together with the holds that the waiters ahead
// will have, leave no room for the request.
func inTheWay(r *Record, now Time, q *driver.AcquireRequest) bool {
	shared := 0
	for i := range r.Holds {
		h := &r.Holds[i]
		switch {
		case !h.blocks(now):
		case h.excludes(q):
			return true
		default:
			shared++
		}
	}
	excluded := false
	r.ahead(now, q, func(p *Place) bool {
		excluded = p.excludes(q)
		shared++
		return !excluded
	})
	return excluded || q.Limit > 0 && shared >= q.Limit
}

// excludes reports whether q is not granted beside h, however many other holds there are.
func (h *Hold) excludes(q *driver.AcquireRequest) bool { return excludes(h.LockID, h.Mode, h.Limit, q) }

func excludes(lockID string, mode driver.Mode, limit int, q *driver.AcquireRequest) bool {
	return lockID == q.LockID || mode == driver.Exclusive || q.Mode == driver.Exclusive || q.LimitDiffers(mode, limit)
}

// nextToken makes tokens rise even if the record was deleted in between: it is never behind
// the clock, and a record is deleted only after the clock has passed its last token.
func nextToken(r Record, now Time) (uint64, error) {
	token := r.Token + 1
	if now > 0 {
		token = max(token, uint64(now))
	}
	if token > driver.MaxToken {
		return 0, fmt.Errorf("%w: the next fencing token of %q would pass 2^53", driver.ErrDamaged, r.Resource)
	}
	return token, nil
}

// Refusal returns the refusal of the request, or nil if nothing is in its way. It does not
// know the acquirer's place and the number of waiters.
func Refusal(r Record, now Time, q driver.AcquireRequest) *driver.HeldError {
	if !inTheWay(&r, now, &q) {
		return nil
	}
	return Refused(r, now, q)
}

// Refused is like Refusal for a request that a server has refused. The record has the first
// places ahead of it, which may leave room if there are more, and q.Place is zero.
func Refused(r Record, now Time, q driver.AcquireRequest) *driver.HeldError {
	e := &driver.HeldError{
		Resource: r.Resource, Holders: make([]driver.Status, 0, len(r.Holds)),
		Position: driver.NoPlace, Ahead: r.firstAhead(now, &q),
	}
	waits := make([]time.Duration, 0, len(r.Holds)) // until each hold that is in the way is gone
	var sure time.Duration                          // until the last hold that must go is gone
	for _, h := range r.Holds {
		if !h.blocks(now) {
			continue
		}
		e.Holders = append(e.Holders, h.status(r.Resource, now))
		wait := h.clear().Until(now)
		e.BySelf = e.BySelf || h.LockID == q.LockID && h.live(now)
		e.LimitDiffers = e.LimitDiffers || q.LimitDiffers(h.Mode, h.Limit)
		switch {
		case h.excludes(&q):
			sure = max(sure, wait)
		default:
			waits = append(waits, wait)
		}
	}
	if q.Limit > 0 && len(waits) >= q.Limit {
		// There is room when all but Limit-1 of the shared holds are gone.
		slices.Sort(waits)
		sure = max(sure, waits[len(waits)-q.Limit])
	}
	e.RetryAfter = sure
	return e
}
