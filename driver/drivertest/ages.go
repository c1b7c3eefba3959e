package drivertest

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// tolerance is how much faster than the suite's clock the store's clock may run during a
// subtest. If the store's clock passes, an age by a caller's clock that differs by less is
// not detected.
const tolerance = 5 * time.Second

// age compares an age that the store returned with the exact one. If the clock passes, want
// is the smallest possible age, and the time since began the largest.
func (b *bench) age(what string, got, want time.Duration, began time.Time) {
	b.t.Helper()
	switch {
	case b.Now != nil && got != want:
		b.t.Errorf("%s: %v ago, want %v", what, got, want)
	case b.Now == nil && (got < want-time.Millisecond || got > time.Since(began)+tolerance): // ages may be whole milliseconds
		b.t.Errorf("%s: %v ago, want %v to %v", what, got, want, time.Since(began)+tolerance)
	}
}

// seen checks the time at which the store read a hold or a place.
func (b *bench) seen(what string, got time.Time) {
	b.t.Helper()
	if got.IsZero() {
		b.t.Errorf("%s: the store returned no time of its clock", what)
	}
	if b.Now != nil && !got.Equal(b.Now()) {
		b.t.Errorf("%s: seen at %v, but the store's clock is at %v", what, got, b.Now())
	}
}

// The ages of a hold are differences on the store's clock, in lists and in refusals.
func agesOfHolds(b *bench) {
	b.needs(b.Store.Traits().ServerClock, "clock of its own")
	step := b.short / 10
	granted := time.Now()
	h := b.acquire(b.request("r", "a"))
	b.pass(step)
	renewed := time.Now()
	if s := b.live(h); s.RenewedAgo() != driver.Unknown {
		b.t.Errorf("the hold was never renewed, but RenewedAgo is %v", s.RenewedAgo())
	}
	if r := b.renew(h.HoldRef, b.long); r.Err != nil {
		b.t.Fatal(r.Err)
	}
	b.pass(step)
	check := func(what string, s driver.Status) {
		b.t.Helper()
		b.seen(what, s.Seen)
		b.age(what+", created", s.Age(), 2*step, granted)
		b.age(what+", renewed", s.RenewedAgo(), step, renewed)
	}
	check("list", b.live(h))
	for _, s := range b.refusal(b.request("r", "b")).Holders {
		check("refusal", s)
	}
	b.Store = b.other()
	check("list of another handle", b.live(h))
	if b.Advance == nil {
		return
	}
	b.Advance(-b.short) // the store may keep the later time
	if s := b.live(h); s.Age() < 0 || s.Age() > 2*step || s.RenewedAgo() < 0 || s.RenewedAgo() > step {
		b.t.Errorf("the clock was set back: created %v and renewed %v ago, want 0 to %v and to %v", s.Age(), s.RenewedAgo(), 2*step, step)
	}
}

// The ages of a place are differences on the store's clock, in lists and in refusals.
func agesOfPlaces(b *bench) {
	b.needsQueue()
	b.needs(b.Store.Traits().ServerClock, "clock of its own")
	step := b.short / 10
	b.acquire(b.request("r", "holder"))
	came := time.Now()
	_ = b.waits(b.request("r", "fair").at(1).fair(), 0)
	_ = b.waits(b.request("r", "plain").at(2), 1)
	b.pass(step)
	check := func(what string, ps []driver.Place, kept ...time.Duration) {
		b.t.Helper()
		if len(ps) != len(kept) {
			b.t.Fatalf("%s: %d places, want %d", what, len(ps), len(kept))
		}
		for i, p := range ps {
			b.seen(what, p.Seen)
			b.age(what+", came", p.Age(), step, came)
			b.age(what+", asked", p.AskedAgo(), step, came)
			if got := p.AskedAgo() + p.Left; (got - kept[i]).Abs() > 2*time.Millisecond {
				b.t.Errorf("%s: asked for %v ago, kept for %v; that makes %v, want %v", what, p.AskedAgo(), p.Left, got, kept[i])
			}
		}
	}
	check("list", b.queue("r"), driver.FairPlaceTTL, driver.PlainPlaceTTL)
	check("refusal", b.refusal(b.request("r", "passes by")).Ahead, driver.FairPlaceTTL)
}
