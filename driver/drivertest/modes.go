package drivertest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var modes = []subtest{
	{"S23_expired_blocks_nobody", expiredBlocksNobody},
	{"S24_first_holders_at_once", firstHoldersAtOnce},
	{"S25_limits", limits},
	{"S25_expired_permit_frees_its_slot", expiredPermit},
	{"S25b_takeover_delay", takeoverDelay},
	{"S26_writers_among_readers", writersAmongReaders},
	{"shared_not_supported", sharedNotSupported},
	{"held_error", heldError},
}

// An expired hold blocks neither mode, without a sweep.
func expiredBlocksNobody(b *bench) {
	type pair struct{ first, then func(request) request }
	exclusive := func(q request) request { return q }
	shared := func(q request) request { return q.shared(0) }
	pairs := map[string]pair{"exclusive, exclusive": {exclusive, exclusive}}
	if b.Store.Traits().Shared {
		pairs["exclusive, shared"] = pair{exclusive, shared}
		pairs["shared, exclusive"] = pair{shared, exclusive}
	}
	for r, p := range pairs {
		b.acquire(p.first(b.request(r, "a").ttl(b.short)))
	}
	b.pass(b.short)
	for r, p := range pairs {
		b.acquire(p.then(b.request(r, "b")))
		if _, there := b.find(r, "b"); !there {
			b.t.Errorf("%s: the successor is not listed", r)
		}
	}
}

// The first acquirers of a resource, at the same moment, get definite answers: two grants if
// both are shared, otherwise exactly one.
func firstHoldersAtOnce(b *bench) {
	b.needsShared()
	stores := []driver.Store{b.Store, b.other()}
	for round := range 20 {
		r := fmt.Sprint("round ", round)
		qs := []request{b.request(r, "a").shared(0), b.request(r, "b")}
		want := 1
		if round%2 == 0 {
			qs[1], want = qs[1].shared(0), 2
		}
		granted := make([]int, len(qs))
		var all sync.WaitGroup
		for i, q := range qs {
			all.Go(func() {
				_, err := stores[i].Acquire(b.t.Context(), driver.AcquireRequest(q))
				switch {
				case err == nil:
					granted[i] = 1
				case !errors.Is(err, driver.ErrHeld):
					b.t.Error(err)
				}
			})
		}
		all.Wait()
		if got := granted[0] + granted[1]; got != want {
			b.t.Errorf("%s: %d granted, want %d", r, got, want)
		}
	}
}

// A limit is the largest number of shared holds, and all holds of a resource have the same
// limit: a shared acquirer with another limit, or without one, is refused with LimitDiffers
// until the last hold with the old limit is gone. 0 means no limit.
func limits(b *bench) {
	b.needsShared()
	for _, limit := range []int{1, 2, 3, 0} {
		r := fmt.Sprint("limit ", limit)
		ask := func(id string, limit int) request { return b.request(r, id).shared(limit) }
		var hs []hold
		for i := range max(limit, 5*(1-min(limit, 1))) {
			hs = append(hs, b.acquire(ask(fmt.Sprint("holder ", i), limit)))
		}
		b.rises(hs...)
		if limit > 0 {
			if b.refusal(ask("late", limit)).LimitDiffers {
				b.t.Errorf("%s: the refusal says that limits differ, but they are equal", r)
			}
		}
		for _, other := range []int{0, 1, 2, 3, 9} {
			if other != limit {
				b.differs(ask("late", other), limit)
			}
		}
		b.refused(b.request(r, "late"))
		for _, h := range hs[1:] {
			b.release(h.HoldRef, 0)
		}
		b.differs(ask("late", limit+9), limit)
		b.release(hs[0].HoldRef, 0)
		b.acquire(ask("late", limit+9))
		b.differs(ask("later", limit), limit+9)
	}
}

// differs sends a request that must be refused because there are holds with that limit.
func (b *bench) differs(q request, limit int) {
	b.t.Helper()
	held := b.refusal(q)
	if !held.LimitDiffers {
		b.t.Errorf("limit %d and holds with limit %d: the refusal does not say that the limits differ", q.Limit, limit)
	}
	for _, s := range held.Holders {
		if s.Limit != limit {
			b.t.Errorf("%q is listed with limit %d, want %d", s.LockID, s.Limit, limit)
		}
	}
}

// An expired permit is free, for a new holder and for the old one.
func expiredPermit(b *bench) {
	b.needsShared()
	stays := b.acquire(b.request("r", "stays").shared(2))
	goes := b.acquire(b.request("r", "goes").shared(2).ttl(b.short))
	b.refused(b.request("r", "next").shared(2))
	b.pass(b.short)
	next := b.acquire(b.request("r", "next").shared(2))
	b.refused(request(goes.request))
	b.release(next.HoldRef, 0)
	again := b.acquire(request(goes.request))
	b.rises(stays, goes, next, again)
	b.live(stays)
}

// A takeover delay blocks from the end on, for exactly that time; the hold cannot be renewed
// then. A release, at once or with a delay, ends it.
func takeoverDelay(b *bench) {
	q := b.request("delayed", "a").ttl(b.short).delay(b.short)
	delayed := b.acquire(q)
	forHours := b.acquire(b.request("for hours", "a").ttl(b.short).delay(b.long))
	released := b.acquire(b.request("released", "a").ttl(b.long).delay(b.long))
	b.release(released.HoldRef, 0)
	b.acquire(b.request("released", "b"))
	givenUp := b.acquire(b.request("given up", "a").ttl(b.long).delay(b.long))
	b.release(givenUp.HoldRef, b.short)

	b.left("before the end", b.refusal(b.request("for hours", "b")).RetryAfter, b.short+b.long)
	b.pass(b.short)
	b.acquire(b.request("given up", "b"))
	b.lost(forHours.HoldRef)
	for _, id := range []string{"a", "b"} {
		held := b.refusal(b.request("for hours", id))
		if held.BySelf {
			b.t.Error("BySelf is set although the caller's own hold has expired")
		}
		b.left("in the delay", held.RetryAfter, b.long)
	}
	if s, there := b.find("for hours", "a"); !there || s.Live() || s.TakeoverDelay != b.long {
		b.t.Errorf("list shows %+v (there: %v) in the takeover delay; want nothing left, delay %v", s, there, b.long)
	}
	if n := len(b.list(driver.Filter{Resource: "for hours"})); n != 1 {
		b.t.Errorf("list shows %d holds that block, want 1: it is in its takeover delay", n)
	}
	b.found(b.release(forHours.HoldRef, 0), true, "release in the delay")
	b.acquire(b.request("for hours", "b"))

	if b.Advance != nil {
		b.refused(b.request("delayed", "b"))
		b.Advance(b.short - time.Millisecond)
		b.refused(b.request("delayed", "b"))
		b.Advance(time.Millisecond)
	} else {
		b.pass(b.short)
	}
	b.lost(delayed.HoldRef)
	b.rises(delayed, b.acquire(b.request("delayed", "b")))
}

// A refused writer leaves no trace: readers come and go, and the writer is granted the
// resource when the last of them has gone, and then alone.
func writersAmongReaders(b *bench) {
	b.needsShared()
	reader := b.acquire(b.request("r", "reader 0").shared(0))
	for i := range 5 {
		b.refused(b.request("r", "writer").at(1))
		next := b.acquire(b.request("r", fmt.Sprint("reader ", i+1)).shared(0))
		b.release(reader.HoldRef, 0)
		reader = next
	}
	b.refused(b.request("r", "writer"))
	b.release(reader.HoldRef, 0)
	writer := b.acquire(b.request("r", "writer"))
	b.refused(b.request("r", "reader").shared(0))
	b.refused(b.request("r", "reader").shared(9))
	b.release(writer.HoldRef, 0)
	b.acquire(b.request("r", "reader").shared(0))
}

// A store without shared holds returns ErrUnsupported, and grants nothing.
func sharedNotSupported(b *bench) {
	if b.Store.Traits().Shared {
		b.acquire(b.request("r", "a").shared(0))
		return
	}
	_, err := b.Store.Acquire(b.t.Context(), driver.AcquireRequest(b.request("r", "a").shared(0)))
	if !errors.Is(err, driver.ErrUnsupported) {
		b.t.Errorf("shared acquire: error %v, want ErrUnsupported", err)
	}
	b.acquire(b.request("r", "b"))
}

// A refusal has the holders in the way and the time to retry, as far as the store returns
// them.
func heldError(b *bench) {
	q := b.request("r", "a").ttl(b.long)
	q.Details = driver.Details{Owner: "ann", Host: "h1", Comment: "nightly"}
	h := b.acquire(q)
	held := b.refusal(b.request("r", "b"))
	b.left("holder", held.RetryAfter, b.long)
	for _, s := range held.Holders {
		if s.Ref() != h.HoldRef || s.Details != q.Details || s.Mode != driver.Exclusive {
			b.t.Errorf("refused because of %+v, want %+v", s, h.HoldRef)
		}
		b.left("holder", s.Left, b.long)
	}
	b.acquire(b.request("forever", "a").ttl(driver.Forever))
	if wait := b.refusal(b.request("forever", "b")).RetryAfter; wait != driver.Forever && wait != driver.Unknown {
		b.t.Errorf("retry after %v although the hold has no end", wait)
	}
	if !b.Store.Traits().Shared {
		return
	}
	for i, ttl := range []time.Duration{2 * b.long, b.long, 3 * b.long} {
		b.acquire(b.request("shared", fmt.Sprint(i)).shared(3).ttl(ttl))
	}
	b.left("room for one more", b.refusal(b.request("shared", "late").shared(3)).RetryAfter, b.long)
	b.left("all have gone that have another limit", b.refusal(b.request("shared", "late").shared(9)).RetryAfter, 3*b.long)
	b.left("room for a writer", b.refusal(b.request("shared", "late")).RetryAfter, 3*b.long)
}
