package drivertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var sweeping = []subtest{
	{"S32_sweep_spares_what_blocks", sweepSpares},
	{"S32_sweep_races_renewals", sweepRacesRenewals},
	{"S32_sweep_races_acquires", sweepRacesAcquires},
	{"sweeps_are_bounded", sweepsAreBounded},
	{"retention", retention},
}

// A sweep drops holds after their end and takeover delay, and no others.
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
	if b.Advance == nil { // on a slow machine some could expire at once
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

// Concurrent sweeps and renewals lose no hold.
func sweepRacesRenewals(b *bench) {
	h := b.acquire(b.request("r", "a"))
	defer b.sweeping()()
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

// sweeping sweeps everything idle, again and again, until it is stopped.
func (b *bench) sweeping() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var sweeper sync.WaitGroup
	beside := b.other()
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if _, err := beside.Sweep(ctx, driver.SweepRequest{}); err != nil && ctx.Err() == nil {
				b.t.Errorf("sweep: %v", err)
				return
			}
		}
	})
	return func() {
		cancel()
		sweeper.Wait()
	}
}

// A record that was idle when a sweep read it, and is locked when the sweep deletes it,
// stays, with its hold and its token. There are several records, so that a sweep has read
// some of them before they are locked.
func sweepRacesAcquires(b *bench) {
	defer b.sweeping()()
	last := make([]hold, 8)
	for round := range rounds() {
		if b.Advance != nil {
			b.Advance(time.Millisecond) // a record whose token is not behind the clock is kept
		}
		var renewals []driver.RenewRequest
		var releases []driver.ReleaseRequest
		for i := range last {
			h := b.acquire(b.request(fmt.Sprint("r", i), "a"))
			if round > 0 {
				b.rises(last[i], h)
			}
			last[i] = h
			renewals = append(renewals, driver.RenewRequest{HoldRef: h.HoldRef, TTL: b.long})
			releases = append(releases, driver.ReleaseRequest{HoldRef: h.HoldRef})
		}
		for i, r := range b.renewAll(renewals) {
			if r.Err != nil {
				b.t.Fatalf("renewal of %q beside sweeps: %v", last[i].Resource, r.Err)
			}
		}
		for i, r := range b.releaseAll(releases) {
			b.found(r.Found, true, "release of "+last[i].Resource)
		}
	}
}

// A sweep with a limit changes no more records than that, reports that more may be due, and
// gets through all in the end. Records that are not due do not count.
func sweepsAreBounded(b *bench) {
	b.needs(b.Store.Traits().Sweeps, "need of sweeps")
	const due, most = 25, 10
	for i := range due {
		b.acquire(b.request(fmt.Sprint("live ", i), "a"))
		b.acquire(b.request(fmt.Sprint("due ", i), "a").ttl(b.short))
	}
	b.pass(b.short)
	dropped := 0
	for turn := 1; ; turn++ {
		r, err := b.Store.Sweep(b.t.Context(), driver.SweepRequest{Idle: b.long, Most: most})
		if err != nil {
			b.t.Fatalf("sweep %d: %v", turn, err)
		}
		if r.Holds > most {
			b.t.Errorf("sweep %d changed %d records, at most %d are allowed", turn, r.Holds, most)
		}
		if dropped += r.Holds; !r.More {
			break
		}
		if turn == due {
			b.t.Fatalf("after %d sweeps more is due, and only %d of %d holds were dropped", turn, dropped, due)
		}
	}
	if dropped < due && !b.Repeats {
		b.t.Errorf("%d holds were dropped in all, %d were due", dropped, due)
	}
	if n := len(b.list(driver.Filter{Expired: true})); n != due && !b.marked || n > due+1 {
		b.t.Errorf("list shows %d holds after the sweeps, want the %d live ones", n, due)
	}
}

// A record is deleted when it has been idle for the given time, and not before. A record that
// was locked in between is not idle.
func retention(b *bench) {
	b.needs(b.Advance != nil, "clock that can be set")
	const idle = time.Minute
	b.release(b.acquire(b.request("idle", "a")).HoldRef, 0)
	held := b.acquire(b.request("held", "a"))
	b.acquire(b.request("expired", "a").ttl(time.Second))
	b.Advance(idle - time.Millisecond)
	b.swept(b.sweep(idle), 1, 0) // the expired hold; its record is not idle yet
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
