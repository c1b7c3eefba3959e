package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var lifetimes = []subtest{
	{"S21_ttls", ttls},
	{"S21_forever", forever},
	{"end_is_exclusive", endIsExclusive},
	{"a_lease_lasts", leaseLasts},
	{"release_with_a_delay", releaseWithDelay},
}

// TTLs from 1 ms to 100 years and Forever are kept exactly.
func ttls(b *bench) {
	const year = 365 * 24 * time.Hour
	for _, ttl := range []time.Duration{time.Millisecond, time.Second, year, driver.MaxTTL, driver.Forever} {
		r := ttl.String()
		h := b.acquire(b.request(r, "a").ttl(ttl))
		b.left("granted for "+r, h.Left, ttl)
		other := b.acquire(b.request("renewed "+r, "a")).HoldRef
		b.renewed("renewed for "+r, other, b.renew(other, max(ttl, b.long)), max(ttl, b.long))
		if ttl < time.Hour {
			continue
		}
		b.left("listed for "+r, b.live(h).Left, ttl)
		b.refused(b.request(r, "b"))
	}
	short := b.acquire(b.request("gone in a moment", "a").ttl(time.Millisecond))
	b.pass(time.Millisecond)
	b.lost(short.HoldRef)
	b.acquire(b.request("gone in a moment", "b"))
}

// A hold without an end has no end after any renewal, until it is released.
func forever(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(brief))
	b.renewed("renewed to Forever", h.HoldRef, b.renew(h.HoldRef, driver.Forever), driver.Forever)
	b.renewed("renewed for less", h.HoldRef, b.renew(h.HoldRef, b.short), driver.Forever)
	b.pass(b.short)
	b.left("listed", b.live(h).Left, driver.Forever)
	delayed := b.acquire(b.request("delayed", "a").ttl(driver.Forever).delay(b.long))
	b.left("with a takeover delay", b.live(delayed).Left, driver.Forever)
	b.swept(b.sweep(0), 0, 0)
	b.refused(b.request("r", "b"))
	b.found(b.release(h.HoldRef, b.short), true, "release with a delay")
	b.left("given up", b.listed(h).Left, b.short)
	b.pass(b.short)
	b.acquire(b.request("r", "b"))
	b.found(b.release(delayed.HoldRef, 0), true, "release")
	b.acquire(b.request("delayed", "b"))
}

// A hold lives while now < end, to the millisecond.
func endIsExclusive(b *bench) {
	b.needs(b.Advance != nil, "clock that can be set")
	h := b.acquire(b.request("r", "a").ttl(b.short))
	b.Advance(b.short - time.Millisecond)
	b.refused(b.request("r", "b"))
	b.renewed("just before the end", h.HoldRef, b.renew(h.HoldRef, time.Millisecond), time.Millisecond)
	b.Advance(time.Millisecond)
	b.lost(h.HoldRef)
	b.acquire(b.request("r", "b"))
}

// A hold lasts for its TTL by the holder's clock, whenever it began. With a store's clock
// that lags, more or less over time, it would end before that, although all answers of the
// store are consistent.
func leaseLasts(b *bench) {
	b.needs(b.Advance == nil, "clock that nobody sets")
	const (
		phases = 10
		exact  = 5 * time.Millisecond // the clock may have whole milliseconds
	)
	var began [phases]time.Time // when each request was sent
	n, over := 0, 0
	b.eventually(25*time.Millisecond, "all leases are over", func() bool {
		if n < phases {
			began[n] = time.Now()
			b.acquire(b.request(fmt.Sprint("r", n), "a").ttl(b.short))
			n++
		}
		for over < n {
			q := b.request(fmt.Sprint("r", over), "b")
			_, err := b.Store.Acquire(b.t.Context(), driver.AcquireRequest(q))
			lasted := time.Since(began[over])
			if errors.Is(err, driver.ErrHeld) {
				break
			}
			if err != nil {
				b.t.Fatalf("acquire of %q: %v", q.Resource, err)
			}
			if lasted < b.short-exact {
				b.t.Errorf("a lease of %v was over after %v", b.short, lasted)
			}
			over++
		}
		return over == phases
	})
}

// A release with a delay moves the end to that time and never later, ends renewals, and can
// be followed by another release.
func releaseWithDelay(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(b.long))
	b.found(b.release(h.HoldRef, b.long/2), true, "first")
	b.left("given up", b.listed(h).Left, b.long/2)
	b.lost(h.HoldRef)
	b.found(b.release(h.HoldRef, b.long), true, "for longer")
	b.left("given up for longer", b.listed(h).Left, b.long/2)
	b.refused(b.request("r", "b"))
	b.found(b.release(h.HoldRef, b.short), true, "for less")
	b.left("given up for less", b.listed(h).Left, b.short)
	b.pass(b.short)
	next := b.acquire(b.request("r", "b"))
	b.found(b.release(h.HoldRef, b.short), false, "after its end")
	b.live(next)
	b.rises(h, next)

	now := b.acquire(b.request("now", "a"))
	b.release(now.HoldRef, b.long/2)
	b.found(b.release(now.HoldRef, 0), true, "at once after all")
	b.acquire(b.request("now", "b"))
}

// listed returns the status of a hold that was released with a delay.
func (b *bench) listed(h hold) driver.Status {
	b.t.Helper()
	s := b.live(h)
	if !s.Released {
		b.t.Errorf("List does not show that the hold of %q was released", h.Resource)
	}
	return s
}
