package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var batches = []subtest{
	{"S27_resource_twice_in_one_batch", twiceInOneBatch},
	{"S27_half_of_a_group_lost", halfOfGroupLost},
	{"S27_groups_among_others", groupsAmongOthers},
	{"batch_of_500", batchOf500},
	{"empty_batch", emptyBatch},
}

// The same hold occurs twice in one batch: it is renewed both times, and only one of two
// releases finds it. Two holds of one resource each have their own outcome.
func twiceInOneBatch(b *bench) {
	h := b.acquire(b.request("r", "a").ttl(b.long))
	rs := b.renewAll([]driver.RenewRequest{{HoldRef: h.HoldRef, TTL: 2 * b.long}, {HoldRef: h.HoldRef, TTL: b.long}})
	for _, r := range rs {
		if r.Err != nil {
			b.t.Errorf("renewed twice in one batch: %v", r.Err)
		}
	}
	b.left("renewed twice", b.live(h).Left, 2*b.long)
	twice := b.releaseAll([]driver.ReleaseRequest{{HoldRef: h.HoldRef}, {HoldRef: h.HoldRef}})
	if twice[0].Found && twice[1].Found {
		b.t.Error("two releases of one hold in one batch both found it")
	}
	b.found(twice[0].Found || twice[1].Found, true, "released twice in one batch")
	if !b.Store.Traits().Shared {
		return
	}
	one, two := b.acquire(b.request("shared", "1").shared(0)), b.acquire(b.request("shared", "2").shared(0))
	gone := b.acquire(b.request("shared", "3").shared(0))
	b.release(gone.HoldRef, 0)
	rs = b.renewAll([]driver.RenewRequest{
		{HoldRef: one.HoldRef, TTL: 2 * b.long}, {HoldRef: gone.HoldRef, TTL: 2 * b.long}, {HoldRef: two.HoldRef, TTL: 3 * b.long},
	})
	if rs[0].Err != nil || !errors.Is(rs[1].Err, driver.ErrLost) || rs[2].Err != nil {
		b.t.Errorf("renewals of one resource: %v; want the second lost", rs)
	}
	b.left("first", b.live(one).Left, 2*b.long)
	b.left("second", b.live(two).Left, 3*b.long)
}

// If one hold of a batch is lost, the batch says which, and the others live.
func halfOfGroupLost(b *bench) {
	group := []hold{b.acquire(b.request("A", "a")), b.acquire(b.request("B", "a").ttl(b.short)), b.acquire(b.request("C", "a"))}
	b.pass(b.short)
	b.acquire(b.request("B", "b"))
	b.refused(b.request("A", "b"))
	var qs []driver.RenewRequest
	for _, h := range group {
		qs = append(qs, driver.RenewRequest{HoldRef: h.HoldRef, TTL: b.long})
	}
	for i, r := range b.renewAll(qs) {
		if lost := errors.Is(r.Err, driver.ErrLost); lost != (i == 1) || !lost && r.Err != nil {
			b.t.Errorf("renewal of %q: %v", group[i].Resource, r.Err)
		}
	}
	b.live(group[0])
	b.live(group[2])
}

// Batches about resources that others change at the same time: no hold is lost, and the
// outcomes of the batch are true.
func groupsAmongOthers(b *bench) {
	b.needsShared()
	resources := strings.Split("ABCDEFGH", "")
	ctx, stop := context.WithCancel(b.t.Context())
	var other sync.WaitGroup
	defer other.Wait()
	defer stop()
	beside := b.other()
	other.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			q := driver.AcquireRequest(b.request(resources[i%len(resources)], "other").shared(0))
			_, err := beside.Acquire(ctx, q)
			if err == nil {
				ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
				_, err = beside.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
			}
			if err != nil && ctx.Err() == nil {
				b.t.Errorf("beside the batches: %v", err)
				return
			}
		}
	})
	for range rounds() {
		var renewals []driver.RenewRequest
		var releases []driver.ReleaseRequest
		for _, r := range resources {
			h := b.acquire(b.request(r, "a").shared(0))
			renewals = append(renewals, driver.RenewRequest{HoldRef: h.HoldRef, TTL: 3 * b.long})
			releases = append(releases, driver.ReleaseRequest{HoldRef: h.HoldRef})
		}
		for i, r := range b.renewAll(renewals) {
			if r.Err != nil {
				b.t.Fatalf("renewal of %q: %v", resources[i], r.Err)
			}
		}
		all := b.list(driver.Filter{LockID: "a"})
		if len(all) != len(resources) {
			b.t.Fatalf("list shows %d holds that were renewed, want %d", len(all), len(resources))
		}
		for _, s := range all {
			if s.Left < 2*b.long {
				b.t.Fatalf("%q was renewed for %v, and has %v left", s.Resource, 3*b.long, s.Left)
			}
		}
		for i, r := range b.releaseAll(releases) {
			b.found(r.Found, true, "release of "+resources[i])
		}
		if all := b.list(driver.Filter{LockID: "a"}); len(all) != 0 {
			b.t.Fatalf("List shows released holds: %+v", all)
		}
	}
}

// A batch of 500 renewals, each with its own TTL, has its outcomes in order, and so has a
// batch of 500 releases.
func batchOf500(b *bench) {
	const n = 500
	var renewals []driver.RenewRequest
	var releases []driver.ReleaseRequest
	var holds []hold
	for i := range n {
		h := b.acquire(b.request(fmt.Sprintf("job/%03d", i), "a"))
		holds = append(holds, h)
		ref := h.HoldRef
		switch i % 5 {
		case 1:
			ref.HoldID = driver.NewHoldID()
		case 2:
			ref.LockID = "b"
		case 3:
			b.release(ref, 0)
		}
		renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: b.long + time.Duration(i)*time.Second})
		releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
	}
	there := func(i int) bool { return i%5 == 0 || i%5 == 4 }
	for i, r := range b.renewAll(renewals) {
		switch {
		case there(i) && r.Err != nil:
			b.t.Errorf("renewal %d: %v", i, r.Err)
		case there(i):
			b.renewed(fmt.Sprint("renewal ", i), renewals[i].HoldRef, r, renewals[i].TTL)
		case !errors.Is(r.Err, driver.ErrLost):
			b.t.Errorf("renewal %d: error %v, want ErrLost", i, r.Err)
		}
	}
	for i, r := range b.releaseAll(releases) {
		b.found(r.Found, there(i), fmt.Sprint("release ", i))
	}
	rest := b.list(driver.Filter{})
	if want := n * 2 / 5; len(rest) != want {
		b.t.Errorf("%d holds are left, want %d", len(rest), want)
	}
	for _, s := range rest {
		if i := slices.IndexFunc(holds, func(h hold) bool { return h.HoldRef == s.Ref() }); i < 0 || there(i) {
			b.t.Errorf("status %+v of hold %d", s, i)
		}
	}
}

// An empty batch is no error.
func emptyBatch(b *bench) {
	if rs, err := b.Store.Renew(b.t.Context(), nil); err != nil || len(rs) != 0 {
		b.t.Errorf("no renewals gave %d results and error %v", len(rs), err)
	}
	if rs, err := b.Store.Release(b.t.Context(), nil); err != nil || len(rs) != 0 {
		b.t.Errorf("no releases gave %d results and error %v", len(rs), err)
	}
}
