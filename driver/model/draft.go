package model

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// Draft is a record that a batch of requests changes together: its holds are copied and read
// once, not for each request.
type Draft struct {
	record  Record
	now     Time
	changed bool           // the draft has a copy of the record's holds
	gone    []bool         // by index: released holds; nil if there are none
	looks   int            // how often a hold was searched
	byLock  map[string]int // the index of each lock ID's hold, made when that pays
	doubled bool           // byLock lacks some holds, which happens only in a record made by hand
}

// indexAfter is the number of searches after which an index of the holds pays.
const indexAfter = 4

// Edit returns a Draft of the record at the given time.
func Edit(r Record, now Time) Draft { return Draft{record: r, now: now} }

// Renew extends a hold as the function Renew does.
func (d *Draft) Renew(q driver.RenewRequest) driver.RenewResult {
	i := d.find(q.HoldRef)
	if i < 0 || !d.record.Holds[i].live(d.now) || d.record.Holds[i].Released {
		return driver.RenewResult{Left: driver.Unknown, Err: lost(q.HoldRef)}
	}
	h := d.own(i)
	h.Renewed = d.now
	if end := d.now.plus(q.TTL); end > h.End {
		h.End = end
	}
	return driver.RenewResult{Left: h.End.Until(d.now), Waiters: len(livePlaces(d.record.Places, d.now))}
}

func lost(ref driver.HoldRef) error {
	return fmt.Errorf("hold of %q by lock ID %q: %w", ref.Resource, ref.LockID, driver.ErrLost)
}

// Release ends a hold and gives up a place as the function Release does.
func (d *Draft) Release(q driver.ReleaseRequest) (found, wake bool) {
	if !q.Place.IsZero() {
		wake = d.leave(q.Place)
		if q.HoldID.IsZero() {
			return false, wake
		}
	}
	i := d.find(q.HoldRef)
	if i < 0 {
		return false, wake
	}
	if q.After == 0 || !d.record.Holds[i].live(d.now) {
		d.remove(i)
		return true, true
	}
	h := d.own(i)
	h.End = min(h.End, d.now.plus(q.After))
	h.Released = true
	return true, true
}

// leave takes a place out of the queue. It reports whether other requests may be granted now:
// they waited for the place, and for no exclusive hold.
func (d *Draft) leave(id driver.PlaceID) (wake bool) {
	i := slices.IndexFunc(d.record.Places, func(p Place) bool { return p.ID == id })
	if i < 0 {
		return false
	}
	fair := d.record.Places[i].Fair
	d.change()
	d.record.Places = without(d.record.Places, id)
	return fair && !slices.ContainsFunc(d.record.Holds, func(h Hold) bool {
		return h.Mode == driver.Exclusive && h.blocks(d.now)
	})
}

// Record returns the changed record, and whether it was changed at all. It ends the draft.
func (d *Draft) Record() (_ Record, changed bool) {
	if !d.changed {
		return d.record, false
	}
	d.record.Places = livePlaces(d.record.Places, d.now)
	if d.gone != nil {
		kept := d.record.Holds[:0]
		for i, h := range d.record.Holds {
			if !d.gone[i] {
				kept = append(kept, h)
			}
		}
		clear(d.record.Holds[len(kept):]) // they refer to their texts
		d.record.Holds = kept
	}
	if len(d.record.Holds) == 0 {
		d.record.Holds = nil
	}
	return d.record, true
}

// change copies the holds for the draft. Touched rises with each request, as if they came one
// by one.
func (d *Draft) change() {
	if !d.changed {
		d.record.Holds = slices.Clone(d.record.Holds)
		d.changed = true
	}
	d.record = Touch(d.record, d.now)
}

func (d *Draft) own(i int) *Hold {
	d.change()
	return &d.record.Holds[i]
}

func (d *Draft) remove(i int) {
	if !d.changed && len(d.record.Holds) == 1 { // as in most records: nothing needs a copy
		d.record = d.record.touched(d.now, nil)
		d.changed = true
		return
	}
	d.change()
	if d.gone == nil {
		d.gone = make([]bool, len(d.record.Holds))
	}
	d.gone[i] = true
}

// find returns the index of the matching hold, or -1.
func (d *Draft) find(ref driver.HoldRef) int {
	if d.looks++; d.looks > indexAfter {
		d.index()
		i, ok := d.byLock[ref.LockID]
		switch {
		case ok && d.there(i, ref):
			return i
		case !d.doubled:
			return -1
		}
	}
	for i := range d.record.Holds {
		if d.there(i, ref) {
			return i
		}
	}
	return -1
}

func (d *Draft) there(i int, ref driver.HoldRef) bool {
	return i < len(d.record.Holds) && d.record.Holds[i].matches(ref) && (d.gone == nil || !d.gone[i])
}

func (d *Draft) index() {
	if d.byLock != nil {
		return
	}
	d.byLock = make(map[string]int, len(d.record.Holds))
	for i := range d.record.Holds {
		lockID := d.record.Holds[i].LockID
		if _, ok := d.byLock[lockID]; ok {
			d.doubled = true
			continue
		}
		d.byLock[lockID] = i
	}
}

// Format implements fmt.Formatter. It writes the present record.
func (d Draft) Format(f fmt.State, verb rune) { fmt.Fprintf(f, fmt.FormatString(f, verb), d.record) }
