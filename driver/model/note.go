package model

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// noted returns the record with a note of the request, which was refused, on all
// holds that are in its way, if such a note is due on one of them. Because the others
// get one too, the next note is due later.
func noted(r Record, now Time, q *driver.AcquireRequest) (_ Record, changed bool) {
	for i := range r.Holds { // as a rule none is due, and that is all
		h := &r.Holds[i]
		changed = changed || h.noteDue(now) && h.blocks(now)
	}
	if !changed {
		return r, false
	}
	shared := 0
	for i := range r.Holds {
		if h := &r.Holds[i]; h.blocks(now) && !h.excludes(q) {
			shared++
		}
	}
	full := q.Limit > 0 && shared >= q.Limit
	holds := slices.Clone(r.Holds)
	changed = false
	for i := range holds {
		if h := &holds[i]; h.blocks(now) && (full || h.excludes(q)) {
			changed = changed || h.noteDue(now)
			h.Waited = now
		}
	}
	if !changed {
		return r, false
	}
	return r.touched(now, holds), true
}

// noteDue: the hold is not a short one, and its last note is out of date.
func (h *Hold) noteDue(now Time) bool {
	const after, every = Time(driver.NoteAfter / time.Microsecond), Time(driver.NoteEvery / time.Microsecond)
	return now-h.Created >= after && (h.Waited == 0 || now-h.Waited >= every)
}
