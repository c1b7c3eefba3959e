package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var sweeping = []subtest{
	{"S32_sweep_spares_what_blocks", sweepSpares},
	{"S32_sweep_races_renewals", sweepRacesRenewals},
	{"retention", retention},
}

// A sweep drops holds past their end and takeover delay, and no others.
func sweepSpares(b *bench) {
	stays := []hold{
		b.acquire(b.request("live", "a")),
		b.acquire(b.request("forever", "a").ttl(driver.Forever)),
	}
	givenUp := b.acquire(b.request("given up", "a"))
	b.release(givenUp.HoldRef, b.long/2)
	stays = append(stays, givenUp)
	b.acquire(b.request("delayed", "a").ttl(b.short).delay(b.long))
	b.acquire(b.request("expired", "a").ttl(b.short))
	over := b.acquire(b.request("given up and over", "a").delay(b.long))
	b.release(over.HoldRef, b.short)
	early := b.sweep(0)
	b.pass(b.short)
	late := b.sweep(b.long)
	if b.Advance == nil { // on a slow day some were past their end at once
		late.Holds, early.Holds = late.Holds+early.Holds, 0
	}
	b.swept(early, 0, 0)
	b.swept(late, 2, 0)
	for _, h := range stays {
		b.live(h)
		b.refused(b.request(h.Resource, "b"))
	}
	b.refused(b.request("delayed", "b"))
	if n := len(b.list(driver.Filter{Expired: true})); n != 4 {
		b.t.Errorf("list shows %d holds after the sweep, want 4", n)
	}
	b.acquire(b.request("expired", "b"))
	b.acquire(b.request("given up and over", "b"))
}

// Sweeps beside renewals lose no hold.
func sweepRacesRenewals(b *bench) {
	h := b.acquire(b.request("r", "a"))
	ctx, stop := context.WithCancel(b.t.Context())
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	defer stop()
	beside := b.other()
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if _, err := beside.Sweep(ctx, 0); err != nil && ctx.Err() == nil {
				b.t.Errorf("sweep: %v", err)
				return
			}
		}
	})
	for i := range 100 {
		b.renew(h.HoldRef, b.long)
		if i%10 == 0 {
			short := b.acquire(b.request("short", "a"))
			b.renew(short.HoldRef, b.long)
			b.found(b.release(short.HoldRef, 0), true, "release")
		}
	}
	b.live(h)
}

// A record goes when it has been idle for so long, and not before; what was
// locked in between is not idle.
func retention(b *bench) {
	b.needs(b.Advance != nil, "clock that can be set")
	const idle = time.Minute
	b.release(b.acquire(b.request("idle", "a")).HoldRef, 0)
	held := b.acquire(b.request("held", "a"))
	b.acquire(b.request("expired", "a").ttl(time.Second))
	b.Advance(idle - time.Millisecond)
	b.swept(b.sweep(idle), 1, 0) // the hold that expired; its record is not idle yet
	b.Advance(2 * time.Millisecond)
	b.release(held.HoldRef, 0)
	b.swept(b.sweep(idle), 0, 1) // "idle"
	b.swept(b.sweep(idle), 0, 0)
	again := b.acquire(b.request("idle", "a"))
	b.Advance(idle)
	b.swept(b.sweep(idle), 0, 2) // "expired" and "held"
	b.live(again)
	b.rises(held, b.acquire(b.request("held", "a")))
}
