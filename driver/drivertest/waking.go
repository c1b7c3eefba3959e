package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var waking = []subtest{
	{"S28_release_wakes", releaseWakes},
	{"S28_release_among_changes", releaseAmongChanges},
	{"S28a_refusals_wake_nobody", refusalsWakeNobody},
	{"S30_signals_coalesce", signalsCoalesce},
	{"watch_ends", watchEnds},
}

// watch subscribes to the resource, and reports whether the store can.
func (b *bench) watch(resource string) (<-chan struct{}, bool) {
	b.t.Helper()
	return b.watchAt(b.t.Context(), b.Store, resource)
}

func (b *bench) watchAt(ctx context.Context, s driver.Store, resource string) (<-chan struct{}, bool) {
	b.t.Helper()
	w, ok := s.(driver.Watcher)
	if !ok {
		return nil, false
	}
	signals, err := w.Watch(ctx, resource)
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		return nil, false
	case err != nil:
		b.t.Fatalf("watch of %q: %v", resource, err)
	}
	return signals, true
}

func (b *bench) needsWatch() {
	b.t.Helper()
	b.needs(b.Store.Traits().Notifies, "wake-ups")
}

// wakes waits for a signal.
func (b *bench) wakes(signals <-chan struct{}, what string) {
	b.t.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case _, open := <-signals:
		if !open {
			b.t.Fatalf("%s: the channel was closed", what)
		}
	case <-timeout.C:
		b.t.Fatalf("%s: no signal came within %v", what, within)
	}
}

// quiet checks that no signal comes for a while.
func (b *bench) quiet(signals <-chan struct{}, what string) {
	b.t.Helper()
	while := time.NewTimer(100 * time.Millisecond)
	defer while.Stop()
	select {
	case <-signals:
		b.t.Errorf("%s: a signal came", what)
	case <-while.C:
	}
}

// Changes that free a resource after Watch has returned give a signal: a release by this and
// by another process, a forced release, and the sweep of a hold.
func releaseWakes(b *bench) {
	b.needsWatch()
	other := b.other()
	signals, _ := b.watchAt(b.t.Context(), other, "r")
	// Some stores also signal a release that came just before.
	drain := func() {
		select {
		case <-signals:
		default:
		}
	}
	b.release(b.acquire(b.request("r", "a")).HoldRef, 0)
	b.wakes(signals, "release")
	drain()
	h := b.acquireAt(other, b.request("r", "a"))
	if _, err := other.Release(b.t.Context(), []driver.ReleaseRequest{{HoldRef: h.HoldRef}}); err != nil {
		b.t.Fatal(err)
	}
	b.wakes(signals, "release by itself")
	drain()
	b.acquire(b.request("r", "a"))
	b.release(driver.HoldRef{Resource: "r", LockID: "a"}, 0)
	b.wakes(signals, "forced release")
	drain()
	b.acquire(b.request("r", "a").ttl(b.short))
	b.pass(b.short)
	b.sweep(b.long)
	b.wakes(signals, "sweep")
}

// A release gives a signal even if renewals and grants, which give none, change the resource
// again at once: there may still be room for another hold.
func releaseAmongChanges(b *bench) {
	b.needsWatch()
	b.needsShared()
	stays := b.acquire(b.request("r", "stays").shared(0))
	signals, _ := b.watchAt(b.t.Context(), b.other(), "r")
	for i := range 3 {
		goes := b.acquire(b.request("r", "goes").shared(0))
		b.release(goes.HoldRef, 0)
		b.renew(stays.HoldRef, 2*b.long)
		b.acquire(b.request("r", fmt.Sprint("comes ", i)).shared(0))
		b.wakes(signals, "release")
	}
}

// Refusals, grants and renewals wake no waiter: otherwise refused waiters would keep each
// other busy.
func refusalsWakeNobody(b *bench) {
	b.needsWatch()
	h := b.acquire(b.request("r", "a"))
	signals, _ := b.watchAt(b.t.Context(), b.other(), "r")
	for i := range 20 {
		b.refused(b.request("r", fmt.Sprint("waiter ", i)))
	}
	b.quiet(signals, "refusals")
	b.renew(h.HoldRef, 2*b.long)
	b.acquire(request(h.request))
	b.quiet(signals, "renewal and repeat")
	b.release(driver.HoldRef{Resource: "r", LockID: "nobody", HoldID: driver.NewHoldID()}, 0)
	b.sweep(b.long)
	b.quiet(signals, "release and sweep of nothing")
	b.release(h.HoldRef, 0)
	b.wakes(signals, "release")
}

// Signals that were not received yet coalesce, and 100 refused acquirers leave nothing that a
// release has to process.
func signalsCoalesce(b *bench) {
	b.needsWatch()
	signals, _ := b.watch("r")
	for range 10 {
		b.release(b.acquire(b.request("r", "a")).HoldRef, 0)
	}
	b.wakes(signals, "releases")
	h := b.acquire(b.request("r", "a"))
	for i := range 100 {
		b.refused(b.request("r", fmt.Sprint("waiter ", i)).at(byte(i + 1)))
	}
	if all := b.list(driver.Filter{Expired: true}); len(all) != 1 || all[0].Ref() != h.HoldRef {
		b.t.Errorf("list shows %d holds, want just the holder's", len(all))
	}
}

// A watch ends with its context, while others continue.
func watchEnds(b *bench) {
	b.needsWatch()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended, _ := b.watchAt(ctx, b.Store, "r")
	signals, _ := b.watch("r")
	cancel()
	release := func() {
		b.release(b.acquire(b.request("r", "a")).HoldRef, 0)
		b.wakes(signals, "the watch beside it")
	}
	// comes reports whether something comes from the ended watch.
	comes := func() bool {
		select {
		case _, open := <-ended:
			return open
		default:
			return false
		}
	}
	b.eventually(5*time.Millisecond, "a watch whose context has ended gets no more signals", func() bool {
		comes() // what came before
		release()
		release() // by now the first signal, if any, has come
		return !comes()
	})
	if w, ok := b.Store.(driver.Watcher); ok {
		if _, err := w.Watch(ctx, "r"); !errors.Is(err, context.Canceled) {
			b.t.Errorf("watch with a dead context: error %v, want context.Canceled", err)
		}
	}
}
