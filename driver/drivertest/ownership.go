package drivertest

import (
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

var ownership = []subtest{
	{"S03_late_holder", lateHolder},
	{"S04_release_repeated", releaseRepeated},
	{"S05_reply_lost", replyLost},
	{"S06_renewal_repeated", renewalRepeated},
	{"S07_renewal_after_expiry", renewalAfterExpiry},
	{"S07a_late_requests_never_shorten", lateRequests},
	{"S07b_release_before_acquire", releaseBeforeAcquire},
	{"S07b_acquire_again", acquireAgain},
	{"S25a_own_hold", ownHold},
	{"S38_forced_release", forcedRelease},
	{"S40_same_owner_and_host", sameOwner},
}

// A holder that comes back after its end neither renews nor releases its successor's hold,
// whether the successor has another lock ID or its own.
func lateHolder(b *bench) {
	for _, successor := range []string{"b", "a"} {
		r := "late for " + successor
		old := b.acquire(b.request(r, "a").ttl(b.short))
		b.pass(b.short)
		next := b.acquireAt(b.other(), b.request(r, successor))
		b.rises(old, next)
		before := b.live(next)
		b.lost(old.HoldRef)
		b.found(b.release(old.HoldRef, 0), false, "late release")
		b.found(b.release(old.HoldRef, b.short), false, "late release with a delay")
		after := b.live(next)
		b.left("successor", after.Left, before.Left)
		b.refused(b.request(r, "c"))
	}
}

// A release that is repeated after its reply was lost does not affect what the same lock ID
// has acquired since.
func releaseRepeated(b *bench) {
	first := b.acquire(b.request("r", "a"))
	b.found(b.release(first.HoldRef, 0), true, "release")
	second := b.acquire(b.request("r", "a"))
	b.found(b.release(first.HoldRef, 0), false, "repeated release")
	b.live(second)
	unknown := first.HoldRef
	unknown.Token = 0
	b.found(b.release(unknown, 0), false, "repeated release without a token")
	b.live(second)
	if !b.hasTokens() {
		return
	}
	wrong := second.HoldRef
	wrong.Token++
	b.found(b.release(wrong, 0), false, "release with another token")
	b.lost(wrong)
	b.live(second)
}

// An acquire that is repeated after its reply was lost gets the same grant, does not move the
// end, and makes only one hold.
func replyLost(b *bench) {
	first := b.acquire(b.request("r", "a").ttl(b.long))
	other := b.other()
	short := b.acquire(b.request("short", "a").ttl(b.short))
	renewed := false // it ended between two repeats, and the later one was a new grant
	b.passing(b.short, func() {
		g, err := other.Acquire(b.t.Context(), short.request)
		renewed = renewed || err == nil && g.Token != short.Token
	})
	if !renewed && b.hasTokens() {
		b.acquire(b.request("short", "b")) // however often "a" has asked
	}
	again := b.acquireAt(other, request(first.request))
	if again.Token != first.Token {
		b.t.Errorf("the repeat was granted token %d, the first time it was %d", again.Token, first.Token)
	}
	b.left("repeat", again.Left, b.long-b.short)
	if n := len(b.list(driver.Filter{Resource: "r"})); n != 1 {
		b.t.Errorf("%d holds after a repeat, want 1", n)
	}
	b.found(b.release(first.HoldRef, 0), true, "release")
	b.acquire(b.request("r", "b"))
}

// A repeated renewal has the same effect as the first.
func renewalRepeated(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(b.long))
	b.renewed("first", h.HoldRef, b.renew(h.HoldRef, 2*b.long), 2*b.long)
	b.renewed("second", h.HoldRef, b.renew(h.HoldRef, 2*b.long), 2*b.long)
	if s := b.live(h); s.Renewed.IsZero() || s.Renewed.Before(s.Created) {
		b.t.Errorf("created %v, renewed %v", s.Created, s.Renewed)
	}
}

// An expired hold is lost, with and without a successor.
func renewalAfterExpiry(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(b.short))
	b.pass(b.short)
	b.lost(h.HoldRef)
	b.lost(driver.HoldRef{Resource: "r", LockID: "a"})
	next := b.acquire(b.request("r", "b"))
	b.lost(h.HoldRef)
	b.live(next)
	b.lost(driver.HoldRef{Resource: "never locked", LockID: "a", HoldID: driver.NewHoldID(), Token: 7})
}

// Renewals that come late or out of order, and late repeats of the acquire, never shorten a
// hold.
func lateRequests(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(brief))
	b.renewed("renewed", h.HoldRef, b.renew(h.HoldRef, b.long), b.long)
	b.renewed("renewed for less", h.HoldRef, b.renew(h.HoldRef, b.short), b.long)
	b.left("repeat", b.acquire(request(h.request)).Left, b.long)
	b.pass(b.short)
	b.live(h)
	b.left("after the shorter TTL", b.acquire(request(h.request)).Left, b.long-b.short)
	b.refused(b.request("r", "b"))
}

// A release that overtakes the acquire that it cleans up finds nothing. Repeated, it finds
// the hold.
func releaseBeforeAcquire(b *bench) {
	q := b.request("r", "a")
	cleanUp := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	b.found(b.release(cleanUp, 0), false, "release before the acquire")
	b.acquire(q)
	b.found(b.release(cleanUp, 0), true, "release after the acquire")
	b.acquire(b.request("r", "b"))
}

// The same acquire after a release, or after its end, is a new acquisition.
func acquireAgain(b *bench) {
	q := b.request("r", "a").ttl(b.long)
	first := b.acquire(q)
	b.release(first.HoldRef, 0)
	second := b.acquire(q.ttl(b.short))
	b.left("after a release", second.Left, b.short)
	b.pass(b.short)
	third := b.acquire(q)
	b.left("after its end", third.Left, b.long)
	b.rises(first, second, third)
	if b.hasTokens() {
		b.lost(second.HoldRef)
	}
	b.live(third)
}

// If a lock ID is in its own way, the refusal says so, whatever the modes.
func ownHold(b *bench) {
	check := func(q request, want bool) {
		b.t.Helper()
		if held := b.refusal(q); held.BySelf != want {
			b.t.Errorf("BySelf is %v, want %v", held.BySelf, want)
		}
	}
	h := b.acquire(b.request("r", "a"))
	check(b.request("r", "a"), true)
	// The holder may have been killed, and its successor may have the same lock ID.
	b.left("until its hold has ended", b.refusal(b.request("r", "a")).RetryAfter, b.long)
	check(b.request("r", "b"), false)
	b.release(h.HoldRef, b.long/2)
	check(request(h.request), true) // it was released: the same hold does not come back
	if !b.Store.Traits().Shared {
		return
	}
	b.acquire(b.request("shared", "a").shared(0))
	check(b.request("shared", "a").shared(0), true)
	check(b.request("shared", "a"), true)
	b.acquire(b.request("shared", "b").shared(0))
	check(b.request("shared", "b"), true)
	check(b.request("shared", "c"), false)
	check(b.request("shared", "c").shared(2), false)
}

// A forced release ends the hold by its ID, or by the resource and the lock ID. The next
// renewal of the holder fails.
func forcedRelease(b *bench) {
	first := b.acquire(b.request("r", "a"))
	s, _ := b.find("r", "a")
	b.found(b.release(s.Ref(), 0), true, "by hold ID")
	b.lost(first.HoldRef)
	second := b.acquire(b.request("r", "a"))
	b.found(b.release(driver.HoldRef{Resource: "r", LockID: "b"}, 0), false, "another lock ID")
	b.live(second)
	b.found(b.release(driver.HoldRef{Resource: "r", LockID: "a"}, 0), true, "by lock ID")
	b.lost(second.HoldRef)
	b.rises(first, second, b.acquire(b.request("r", "b")))
}

// No decision depends on owner and host: two processes with the same names exclude each
// other, also at the same moment.
func sameOwner(b *bench) {
	stores := []driver.Store{b.Store, b.other()}
	for range 10 {
		r := "r " + driver.NewHoldID().String()
		granted := make([]bool, len(stores))
		var all sync.WaitGroup
		for i, s := range stores {
			q := b.request(r, driver.NewHoldID().String())
			q.Details = driver.Details{Owner: "app", Host: "localhost"}
			all.Go(func() {
				_, err := s.Acquire(b.t.Context(), driver.AcquireRequest(q))
				if granted[i] = err == nil; err != nil && !errors.Is(err, driver.ErrHeld) {
					b.t.Error(err)
				}
			})
		}
		all.Wait()
		if granted[0] == granted[1] {
			b.t.Errorf("%q: granted %v, want exactly one", r, granted)
		}
	}
}
