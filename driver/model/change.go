package model

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew extends the hold. Its error wraps driver.ErrLost when there is no hold
// to extend; the record is then unchanged.
func Renew(r Record, now Time, q driver.RenewRequest) (Record, driver.RenewResult) {
	i := r.find(q.HoldRef)
	if i < 0 || !r.Holds[i].live(now) || r.Holds[i].Released {
		return r, driver.RenewResult{Left: driver.Unknown, Err: lost(q.HoldRef)}
	}
	h := r.Holds[i]
	h.Renewed = now
	if end := now.plus(q.TTL); q.Exact || end > h.End {
		h.End = end
	}
	return r.touched(now, r.with(i, h)), driver.RenewResult{Left: h.End.until(now)}
}

func lost(ref driver.HoldRef) error {
	return fmt.Errorf("hold of %q by lock ID %q: %w", ref.Resource, ref.LockID, driver.ErrLost)
}

// Release ends the hold. It reports whether the hold was there; if not, the
// record is unchanged.
func Release(r Record, now Time, q driver.ReleaseRequest) (_ Record, found bool) {
	i := r.find(q.HoldRef)
	if i < 0 {
		return r, false
	}
	h := r.Holds[i]
	end := now.plus(q.After)
	if q.After == 0 || !h.live(now) {
		return r.touched(now, r.without(i)), true
	}
	h.End = min(h.End, end)
	h.Released = true
	return r.touched(now, r.with(i, h)), true
}

// Statuses returns the holds that the filter chooses.
func Statuses(r Record, now Time, f driver.Filter) []driver.Status {
	var ss []driver.Status
	for _, h := range r.Holds {
		if !f.Expired && !h.blocks(now) {
			continue
		}
		if s := h.status(r.Resource, now); f.Match(s) {
			ss = append(ss, s)
		}
	}
	return ss
}

// Sweep drops the holds that no longer block and reports how many. remove says
// that the record may be deleted: it has been idle for so long, and its last
// token lies as far behind the clock, that no later token can repeat it.
func Sweep(r Record, now Time, idle time.Duration) (_ Record, dropped int, remove bool) {
	var kept []Hold
	for _, h := range r.Holds {
		if h.blocks(now) {
			kept = append(kept, h)
		}
	}
	if dropped = len(r.Holds) - len(kept); dropped > 0 {
		return r.touched(now, kept), dropped, false
	}
	limit := now - Time(idle/time.Microsecond)
	remove = len(kept) == 0 && r.Touched <= limit && (limit >= 0 && r.Token <= uint64(limit))
	return r, 0, remove
}
