package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var records = []subtest{
	{"S09_tokens_rise", tokensRise},
	{"S09_clock_a_year_ahead", clockAhead},
	{"S11_dead_context", deadContext},
	{"S12_cause_of_the_context", causes},
	{"S22_reopened", reopened},
	{"S37_damaged_record", damagedRecord},
}

// Tokens rise across release, expiry, sweep, deletion of the record and another handle, in
// all modes.
func tokensRise(b *bench) {
	hs := []hold{b.acquire(b.request("r", "a"))}
	next := func(q request) { hs = append(hs, b.acquire(q)) }
	b.release(hs[0].HoldRef, 0)
	for range 5 {
		next(b.request("r", "a"))
		b.release(hs[len(hs)-1].HoldRef, 0)
	}
	if b.Store.Traits().Shared {
		for _, id := range []string{"b", "c", "d"} {
			next(b.request("r", id).shared(0).ttl(b.short))
		}
		b.pass(b.short)
	}
	next(b.request("r", "a").ttl(b.short))
	b.pass(b.short)
	b.sweep(b.long)
	next(b.request("r", "a").ttl(b.short))
	b.pass(b.short)
	b.sweep(b.short)
	b.pass(b.short)
	b.sweep(b.short)
	next(b.request("r", "a"))
	b.release(hs[len(hs)-1].HoldRef, 0)
	hs = append(hs, b.acquireAt(b.other(), b.request("r", "a")))
	b.rises(hs...)
}

// Tokens go on rising after the store's clock was a year ahead for a minute, and the record
// is kept for as long as that needs.
func clockAhead(b *bench) {
	b.needs(b.Advance != nil, "clock that can be set")
	const year = 365 * 24 * time.Hour
	first := b.acquire(b.request("r", "a"))
	b.release(first.HoldRef, 0)
	b.Advance(year)
	second := b.acquire(b.request("r", "a"))
	b.release(second.HoldRef, 0)
	b.Advance(time.Minute - year)
	third := b.acquire(b.request("r", "a"))
	b.release(third.HoldRef, 0)
	b.Advance(2 * time.Minute)
	b.swept(b.sweep(time.Minute), 0, 0)
	fourth := b.acquire(b.request("r", "a"))
	b.rises(first, second, third, fourth)
}

// A call whose context has ended sends nothing.
func deadContext(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(b.long))
	before := b.live(h)
	dead, cancel := context.WithCancel(b.t.Context())
	cancel()
	check := func(what string, err error) {
		b.t.Helper()
		if !errors.Is(err, context.Canceled) {
			b.t.Errorf("%s with a dead context: error %v, want context.Canceled", what, err)
		}
	}
	_, err := b.Store.Acquire(dead, driver.AcquireRequest(b.request("new", "a")))
	check("acquire", err)
	_, err = b.Store.Renew(dead, []driver.RenewRequest{{HoldRef: h.HoldRef, TTL: 2 * b.long}})
	check("renew", err)
	_, err = b.Store.Release(dead, []driver.ReleaseRequest{{HoldRef: h.HoldRef}})
	check("release", err)
	_, err = b.Store.Sweep(dead, driver.SweepRequest{})
	check("sweep", err)
	n := 0
	for _, err := range b.Store.List(dead, driver.Filter{}) {
		check("list", err)
		n++
	}
	if n != 1 {
		b.t.Errorf("list with a dead context yielded %d times, want just its error", n)
	}
	if after := b.live(h); after.Renewed != before.Renewed {
		b.t.Error("a renewal whose context had ended reached the store")
	}
	if s, there := b.find("new", "a"); there {
		b.t.Errorf("an acquire whose context had ended reached the store: %+v", s)
	}
}

// Holds that outlive the process are still held after all handles were closed and the store
// was opened again: nothing is granted early or twice.
func reopened(b *bench) {
	b.needs(b.Reopen != nil && b.Store.Traits().Durable, "data that outlive a restart")
	h := b.acquire(b.request("r", "a"))
	gone := b.acquire(b.request("other", "a"))
	b.release(gone.HoldRef, 0)
	if err := b.Store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.handles = nil
	b.Store = b.other()
	b.refused(b.request("r", "b"))
	if again := b.acquire(request(h.request)); again.Token != h.Token {
		b.t.Errorf("the repeat was granted token %d, before it was %d", again.Token, h.Token)
	}
	b.renew(h.HoldRef, b.long)
	b.rises(gone, b.acquire(b.request("other", "b")))
	b.found(b.release(h.HoldRef, 0), true, "release")
	b.rises(h, b.acquire(b.request("r", "b")))
}

// A record that cannot be read is an error for requests about it, is not overwritten, and
// does not affect other records.
func damagedRecord(b *bench) {
	b.needs(b.Damage != nil, "way to damage a record")
	bad, good := b.acquire(b.request("bad", "a")), b.acquire(b.request("good", "a"))
	b.Damage(b.t, "bad")
	damaged := func(what string, err error) {
		b.t.Helper()
		if !errors.Is(err, driver.ErrDamaged) {
			b.t.Errorf("%s: error %v, want ErrDamaged", what, err)
		}
	}
	acquires := func() {
		b.t.Helper()
		for _, q := range []request{request(bad.request), b.request("bad", "b")} {
			_, err := b.Store.Acquire(b.t.Context(), driver.AcquireRequest(q))
			damaged("acquire", err)
		}
	}
	acquires()
	rs := b.renewAll([]driver.RenewRequest{
		{HoldRef: bad.HoldRef, TTL: b.long}, {HoldRef: good.HoldRef, TTL: b.long},
	})
	damaged("renew", rs[0].Err)
	if rs[1].Err != nil {
		b.t.Errorf("renewal of the sound record in the same batch: %v", rs[1].Err)
	}
	released, err := b.Store.Release(b.t.Context(), []driver.ReleaseRequest{{HoldRef: bad.HoldRef}, {HoldRef: good.HoldRef}})
	if err != nil || len(released) != 2 {
		b.t.Fatalf("2 releases gave %d results and error %v", len(released), err)
	}
	damaged("release", released[0].Err)
	if released[1].Err != nil {
		b.t.Errorf("release of the sound record in the same batch: %v", released[1].Err)
	}
	// A list that left out a record that it cannot read would show its resource as free.
	for what, f := range map[string]driver.Filter{"list of the record": {Resource: "bad"}, "list of all": {}} {
		var last error
		for _, err := range b.Store.List(b.t.Context(), f) {
			last = err
		}
		damaged(what, last)
	}
	// A sweep may or may not report what it cannot read.
	_, _ = b.Store.Sweep(b.t.Context(), driver.SweepRequest{})
	acquires()
	b.acquire(b.request("good", "b"))
}
