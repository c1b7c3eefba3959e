package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var queueing = []subtest{
	{"places_are_kept", placesAreKept},
	{"places_stop_others", placesStopOthers},
	{"places_not_fair_stop_nobody", unfairPlaces},
	{"places_end", placesEnd},
	{"place_of_another_kind", placeOfAnotherKind},
	{"places_of_shared", placesOfShared},
	{"place_not_for_own_hold", noPlaceBySelf},
	{"places_are_bounded", placesAreBounded},
	{"places_are_given_up", placesAreGivenUp},
	{"S28a_places_wake_nobody", placesWakeNobody},
	{"places_survive_a_sweep", placesSurviveSweep},
	{"renewals_count_waiters", renewalsCountWaiters},
	{"queue_is_missing", queueIsMissing},
}

func (b *bench) needsQueue() {
	b.t.Helper()
	b.needs(b.Store.Traits().Queue, "queue of waiters")
}

func (b *bench) needsSetClock() {
	b.t.Helper()
	b.needs(b.Advance != nil, "clock that can be set")
}

// at gives the request the place with that number.
func (q request) at(place byte) request { q.Place = driver.PlaceID{place}; return q }

func (q request) fair() request { q.Fair = true; return q }

// waits sends a request that must be refused with that position.
func (b *bench) waits(q request, position int) *driver.HeldError {
	b.t.Helper()
	e := b.refusal(q)
	if e.Position != position {
		b.t.Errorf("%q has position %d in the queue, want %d", q.LockID, e.Position, position)
	}
	return e
}

// queue returns the live places of a resource.
func (b *bench) queue(resource string) []driver.Place {
	b.t.Helper()
	var all []driver.Place
	for p, err := range driver.Waiters(b.t.Context(), b.Store, driver.Filter{Resource: resource}) {
		if slices.ContainsFunc(all, func(q driver.Place) bool { return q.Position == p.Position }) {
			continue // the list began again
		}
		if err != nil {
			b.t.Fatalf("waiters of %q: %v", resource, err)
		}
		all = append(all, p)
	}
	return all
}

// queued checks the waiters and their order.
func (b *bench) queued(resource string, lockIDs ...string) {
	b.t.Helper()
	var got []string
	for i, p := range b.queue(resource) {
		got = append(got, p.LockID)
		if p.Position != i {
			b.t.Errorf("the place of %q has position %d, want %d", p.LockID, p.Position, i)
		}
	}
	if !slices.Equal(got, lockIDs) {
		b.t.Errorf("%q wait for %q, want %q", got, resource, lockIDs)
	}
}

// A waiter keeps its place by asking again. The store shows the waiters, and when and how
// they came.
func placesAreKept(b *bench) {
	b.needsQueue()
	b.acquire(b.request("r", "holder"))
	b.queued("r")
	first := b.request("r", "first").at(1)
	first.Details = driver.Details{Owner: "ann", Host: "h", Comment: "not kept"}
	_ = b.waits(first, 0)
	second := b.request("r", "second").at(2).fair()
	_ = b.waits(second, 0)
	_ = b.waits(b.request("r", "third").at(3), 1)
	b.refused(b.request("r", "passes by"))
	b.queued("r", "first", "second", "third")
	before := b.queue("r")
	if p := before[0]; p.Resource != "r" || p.ID != first.Place && !b.HidesPlaces || p.LockID != "first" || p.Mode != driver.Exclusive || p.Fair || p.Owner != "ann" || p.Host != "h" ||
		p.Since.IsZero() || !p.Asked.Equal(p.Since) || p.Left <= 0 || p.Left > driver.PlainPlaceTTL || !before[1].Fair {
		b.t.Errorf("the first place is %+v, the second %+v", p, before[1])
	}
	first.HoldID = driver.NewHoldID() // as each attempt has its own
	_ = b.waits(first, 0)
	if b.Advance != nil {
		b.Advance(driver.FairPlaceTTL/4 + time.Millisecond)
		e := b.waits(second, 0)
		if p := b.queue("r")[1]; !p.Since.Equal(before[1].Since) || !p.Asked.After(before[1].Asked) || p.Left != driver.FairPlaceTTL || e.Waiters != 3 {
			b.t.Errorf("after another request the second place is %+v, and there are %d waiters", p, e.Waiters)
		}
	}
	// Another waiter of the same Client may inherit a place.
	heir := b.request("r", "heir").at(1)
	_ = b.waits(heir, 0)
	b.queued("r", "heir", "second", "third")
}

// Fair waiters are served in the order in which they came, and nobody overtakes them.
func placesStopOthers(b *bench) {
	b.needsQueue()
	h := b.acquire(b.request("r", "holder"))
	waiters := make([]request, 6)
	for i := range waiters {
		waiters[i] = b.request("r", fmt.Sprint("waiter ", i)).at(byte(i + 1)).fair()
		_ = b.waits(waiters[i], i)
	}
	for i, q := range waiters {
		b.release(h.HoldRef, 0)
		e := b.waits(b.request("r", "no place"), driver.NoPlace)
		if n := len(waiters) - i; len(e.Holders) != 0 || e.Waiters != n || len(e.Ahead) != min(n, 4) || e.Ahead[0].LockID != q.LockID {
			b.t.Errorf("the refusal of a free lock has %d waiters, and ahead %+v", e.Waiters, e.Ahead)
		}
		for j := len(waiters) - 1; j > i; j-- {
			_ = b.waits(waiters[j], j-i)
		}
		h = b.acquire(q)
	}
	b.queued("r")
	b.release(h.HoldRef, 0)
	b.acquire(b.request("r", "no place"))
}

// A place that is not fair is visible and stops nobody. Its waiter waits for fair waiters
// that came before, but not for later ones.
func unfairPlaces(b *bench) {
	b.needsQueue()
	h := b.acquire(b.request("r", "holder"))
	plain, fair := b.request("r", "plain").at(1), b.request("r", "fair").at(2).fair()
	late := b.request("r", "late").at(3)
	_ = b.waits(plain, 0)
	_ = b.waits(fair, 0)
	_ = b.waits(late, 1)
	b.release(h.HoldRef, 0)
	_ = b.waits(late, 1)
	b.release(b.acquire(plain).HoldRef, 0)
	b.release(b.acquire(fair).HoldRef, 0)
	b.acquire(b.request("r", "no place"))
	b.queued("r", "late")
}

// A place that its waiter does not ask for ends, and others need not wait for it. A clock
// that was set back keeps no place alive.
func placesEnd(b *bench) {
	b.needsQueue()
	b.needsSetClock()
	h := b.acquire(b.request("r", "holder").ttl(driver.Forever))
	gone, there := b.request("r", "gone").at(1).fair(), b.request("r", "there").at(2).fair()
	_ = b.waits(gone, 0)
	_ = b.waits(there, 1)
	b.release(h.HoldRef, 0)
	b.Advance(driver.FairPlaceTTL / 2)
	_ = b.waits(there, 1)
	b.Advance(driver.FairPlaceTTL/2 - time.Millisecond)
	_ = b.waits(there, 1)
	b.Advance(time.Millisecond)
	b.queued("r", "there")
	h = b.acquire(there)
	_ = b.waits(gone, 0) // it comes again, at the end
	b.queued("r", "gone")
	b.release(h.HoldRef, 0)
	b.acquire(gone)
}

// A place ID that comes with another mode or limit starts at the end.
func placeOfAnotherKind(b *bench) {
	b.needsQueue()
	b.needsShared()
	h := b.acquire(b.request("r", "holder"))
	changing := b.request("r", "changing").at(1).fair()
	_ = b.waits(changing, 0)
	_ = b.waits(b.request("r", "other").at(2).fair(), 1)
	_ = b.waits(changing, 0)
	_ = b.waits(changing.shared(3), 1)
	b.queued("r", "other", "changing")
	_ = b.waits(changing.shared(3), 1)
	_ = b.waits(b.request("r", "last").at(3).fair(), 2)
	_ = b.waits(changing.shared(2), 2)
	b.queued("r", "other", "last", "changing")
	b.release(h.HoldRef, 0)
	_ = b.waits(b.request("r", "other").shared(0).at(2).fair(), 2)
	b.queued("r", "last", "changing", "other")
}

// Waiters ahead count as if they had their holds: a writer stops readers, readers do not stop
// readers, and each takes a permit.
func placesOfShared(b *bench) {
	b.needsQueue()
	b.needsShared()
	reader := b.acquire(b.request("r", "reader").shared(0))
	writer := b.request("r", "writer").at(1).fair()
	_ = b.waits(writer, 0)
	_ = b.waits(b.request("r", "late reader").shared(0).at(2), 1)
	b.release(reader.HoldRef, 0)
	_ = b.waits(b.request("r", "late reader").shared(0).at(2), 1)
	b.acquire(writer)

	for _, permits := range []int{3, 7} { // more than a refusal has
		resource := fmt.Sprint("permits ", permits)
		permit := func(i int) request {
			return b.request(resource, fmt.Sprint("permit ", i)).shared(permits).at(byte(i + 1)).fair()
		}
		holder := b.acquire(b.request(resource, "holder"))
		for i := range permits {
			_ = b.waits(permit(i), i)
		}
		b.release(holder.HoldRef, 0)
		_ = b.waits(b.request(resource, "no permit").shared(permits), driver.NoPlace)
		b.refused(b.request(resource, "another limit").shared(permits + 1))
		for i := permits - 1; i >= 0; i-- { // there is room beside the waiters ahead
			b.acquire(permit(i))
		}
	}
}

// An acquirer that its own hold refuses gets no place: it would wait for itself.
func noPlaceBySelf(b *bench) {
	b.needsQueue()
	b.acquire(b.request("r", "a"))
	if e := b.waits(b.request("r", "a").at(1).fair(), driver.NoPlace); !e.BySelf {
		b.t.Error("BySelf is not set")
	}
	b.queued("r")
}

// A full queue gives no place, and loses none.
func placesAreBounded(b *bench) {
	b.needsQueue()
	h := b.acquire(b.request("r", "holder"))
	// A fair place may end before a slow store has filled the queue.
	for i := range driver.MaxPlaces - 1 {
		_ = b.waits(b.request("r", "waiter").at(byte(i+1)), 0)
	}
	last := b.request("r", "last").at(driver.MaxPlaces).fair()
	_ = b.waits(last, 0)
	if e := b.waits(b.request("r", "one more").at(255).fair(), driver.NoPlace); e.Waiters != driver.MaxPlaces {
		b.t.Errorf("%d wait, want %d", e.Waiters, driver.MaxPlaces)
	}
	b.release(h.HoldRef, 0)
	_ = b.waits(b.request("r", "one more").at(255).fair(), driver.NoPlace)
	b.acquire(last)
	_ = b.waits(b.request("r", "one more").at(255).fair(), 0)
}

// A release takes a place out of the queue, whether the hold is there or not, and Found does
// not count the place. Later waiters get a signal if no exclusive hold is in the way.
func placesAreGivenUp(b *bench) {
	b.needsQueue()
	h := b.acquire(b.request("r", "holder"))
	_ = b.waits(b.request("r", "a").at(1).fair(), 0)
	_ = b.waits(b.request("r", "b").at(2).fair(), 1)
	leave := func(place byte) {
		b.t.Helper()
		ref := driver.HoldRef{Resource: "r", LockID: "a"}
		if r := b.releaseAll([]driver.ReleaseRequest{{HoldRef: ref, Place: driver.PlaceID{place}}})[0]; r.Err != nil || r.Found {
			b.t.Errorf("giving up a place: found a hold: %v, error %v", r.Found, r.Err)
		}
	}
	leave(9)
	leave(1)
	b.queued("r", "b")
	b.live(h)
	late := b.request("r", "late")
	if r := b.releaseAll([]driver.ReleaseRequest{{
		HoldRef: driver.HoldRef{Resource: "r", LockID: late.LockID, HoldID: late.HoldID}, Place: driver.PlaceID{2},
	}})[0]; r.Err != nil || r.Found {
		b.t.Errorf("a clean-up that finds a place: found a hold: %v, error %v", r.Found, r.Err)
	}
	b.queued("r")
	_ = b.waits(b.request("r", "a").at(1).fair(), 0)
	b.release(h.HoldRef, 0)
	leave(1)
	b.acquire(b.request("r", "b"))
}

// A place wakes nobody, neither when it is taken or kept nor when it is given up while an
// exclusive hold blocks.
func placesWakeNobody(b *bench) {
	b.needsQueue()
	b.needsWatch()
	h := b.acquire(b.request("r", "holder"))
	here, _ := b.watch("r")
	elsewhere, _ := b.watchAt(b.t.Context(), b.other(), "r")
	for i := range 4 {
		b.refused(b.request("r", fmt.Sprint("waiter ", i)).at(byte(i + 1)).fair())
	}
	leave := func(place byte) {
		b.releaseAll([]driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: "r", LockID: "any"}, Place: driver.PlaceID{place}}})
	}
	leave(2)
	b.quiet(here, "places")
	b.quiet(elsewhere, "places, at another handle")
	b.release(h.HoldRef, 0)
	b.wakes(here, "release")
	b.wakes(elsewhere, "release, at another handle")
	leave(1)
	b.wakes(here, "the end of a place in the way")
	b.wakes(elsewhere, "the end of a place in the way, at another handle")
}

// A sweep keeps live places, also of resources without holds.
func placesSurviveSweep(b *bench) {
	b.needsQueue()
	b.needsSetClock()
	h := b.acquire(b.request("r", "holder"))
	first := b.request("r", "first").at(1).fair()
	_ = b.waits(first, 0)
	b.release(h.HoldRef, 0)
	b.Advance(2 * time.Millisecond)
	b.sweep(time.Millisecond)
	b.queued("r", "first")
	b.refused(b.request("r", "late"))
	b.Advance(driver.FairPlaceTTL)
	b.sweep(time.Millisecond)
	b.queued("r")
	b.acquire(b.request("r", "late"))
}

// A renewal returns the number of waiters.
func renewalsCountWaiters(b *bench) {
	b.needsQueue()
	h := b.acquire(b.request("r", "holder"))
	for n := range 4 {
		if r := b.renew(h.HoldRef, 2*b.long); r.Waiters != n {
			b.t.Errorf("the renewal says that %d wait, want %d", r.Waiters, n)
		}
		b.refused(b.request("r", fmt.Sprint("waiter ", n)).at(byte(n + 1)))
	}
}

// A store without a queue ignores places.
func queueIsMissing(b *bench) {
	if b.Store.Traits().Queue {
		b.t.Skip("this store keeps a queue")
	}
	h := b.acquire(b.request("r", "holder"))
	e := b.waits(b.request("r", "waiter").at(1).fair(), driver.NoPlace)
	if e.Waiters != 0 || len(e.Ahead) != 0 {
		b.t.Errorf("a store without a queue returned %d waiters, and ahead %+v", e.Waiters, e.Ahead)
	}
	b.release(h.HoldRef, 0)
	b.acquire(b.request("r", "late"))
}
