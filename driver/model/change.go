package model

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew extends the hold. The error wraps driver.ErrLost if there is no hold to extend; the
// record is then unchanged.
func Renew(r Record, now Time, q driver.RenewRequest) (Record, driver.RenewResult) {
	d := Edit(r, now)
	result := d.Renew(q)
	r, _ = d.Record()
	return r, result
}

// Release ends the hold and gives up the place. It reports whether the hold was there, and
// whether other requests may be granted now. If neither hold nor place was there, the record
// is unchanged.
func Release(r Record, now Time, q driver.ReleaseRequest) (_ Record, found, wake bool) {
	d := Edit(r, now)
	found, wake = d.Release(q)
	r, _ = d.Record()
	return r, found, wake
}

// Sweep drops the holds that no longer block and returns their number. remove says that the
// record may be deleted: nobody waits, it has been idle for the given time, and its last
// token is so far behind the clock that no later token can repeat it.
func Sweep(r Record, now Time, idle time.Duration) (_ Record, dropped int, remove bool) {
	blocking := 0
	for i := range r.Holds {
		if r.Holds[i].blocks(now) {
			blocking++
		}
	}
	if dropped = len(r.Holds) - blocking; dropped > 0 {
		kept := make([]Hold, 0, blocking)
		for _, h := range r.Holds {
			if h.blocks(now) {
				kept = append(kept, h)
			}
		}
		r.Places = livePlaces(r.Places, now)
		return r.touched(now, kept), dropped, false
	}
	limit := now - Time(idle/time.Microsecond)
	remove = blocking == 0 && len(livePlaces(r.Places, now)) == 0 && r.Touched <= limit && (limit >= 0 && r.Token <= uint64(limit))
	return r, 0, remove
}

// Due reports whether Sweep would change the record or allow its deletion.
func Due(r Record, now Time, idle time.Duration) bool {
	_, dropped, remove := Sweep(r, now, idle)
	return dropped > 0 || remove
}
