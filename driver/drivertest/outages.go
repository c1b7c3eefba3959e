package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var outages = []subtest{
	{"S22_restarted", restarted},
	{"S22_signals_loss", signalsLoss},
	{"S22a_unreachable", unreachable},
	{"S22a_wakes_after_outage", wakesAfterOutage},
	{"S22b_writes_fail", writesFail},
	{"S33_copies_get_nothing", copiesGetNothing},
}

// patience is how long a call may take that cannot be answered.
const patience = time.Second

// attempt is a call of the store during a fault.
type attempt struct {
	what string
	do   func(ctx context.Context) []error // one error for each request
}

// once returns the store without its Repeater, which would retry until ctx ends.
func once(s driver.Store) driver.Store {
	if r, ok := s.(*Repeater); ok {
		return r.Store
	}
	return s
}

// attempts makes all attempts at the same time, and checks that each outcome is unknown.
func (b *bench) attempts(all []attempt) {
	b.t.Helper()
	b.try(patience, all, b.unknown)
}

// try makes all attempts at the same time, with the given timeout, and calls judge with each
// outcome.
func (b *bench) try(timeout time.Duration, all []attempt, judge func(what string, err error)) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), timeout)
	defer cancel()
	outcomes := make([]chan []error, len(all))
	for i, a := range all {
		outcomes[i] = make(chan []error, 1)
		go func() { outcomes[i] <- a.do(ctx) }()
	}
	late := time.NewTimer(timeout + within)
	defer late.Stop()
	for i, a := range all {
		select {
		case errs := <-outcomes[i]:
			for _, err := range errs {
				judge(a.what, err)
			}
		case <-late.C:
			b.t.Fatalf("%s goes on %v after its context ended", a.what, within)
		}
	}
}

// unknown checks that err leaves the outcome open.
func (b *bench) unknown(what string, err error) {
	b.t.Helper()
	switch {
	case err == nil:
		b.t.Errorf("%s succeeded; its outcome should be unknown", what)
	case definite(err):
		b.t.Errorf("%s: named error %v; the outcome should be unknown", what, err)
	}
}

// acquiring returns the attempt of an acquire.
func acquiring(what string, s driver.Store, q request) attempt {
	return attempt{what, func(ctx context.Context) []error {
		_, err := s.Acquire(ctx, driver.AcquireRequest(q))
		return []error{err}
	}}
}

// renewing returns the attempt of renewing the holds in one batch.
func renewing(what string, s driver.Store, ttl time.Duration, hs ...hold) attempt {
	return attempt{what, func(ctx context.Context) []error {
		var qs []driver.RenewRequest
		for _, h := range hs {
			qs = append(qs, driver.RenewRequest{HoldRef: h.HoldRef, TTL: ttl})
		}
		rs, err := s.Renew(ctx, qs)
		return each(len(qs), rs, err, func(r driver.RenewResult) error { return r.Err })
	}}
}

// releasing returns the attempt of releasing the holds in one batch.
func releasing(what string, s driver.Store, hs ...hold) attempt {
	return attempt{what, func(ctx context.Context) []error {
		var qs []driver.ReleaseRequest
		for _, h := range hs {
			qs = append(qs, driver.ReleaseRequest{HoldRef: h.HoldRef})
		}
		rs, err := s.Release(ctx, qs)
		return each(len(qs), rs, err, func(r driver.ReleaseResult) error { return r.Err })
	}}
}

// each returns the outcome of each request of a batch.
func each[R any](n int, rs []R, err error, outcome func(R) error) []error {
	if err != nil {
		return []error{err}
	}
	errs := make([]error, n)
	for i := range errs {
		if errs[i] = errors.New("no result"); i < len(rs) {
			errs[i] = outcome(rs[i])
		}
	}
	return errs
}

// listing returns the attempt of a list.
func listing(what string, s driver.Store, f driver.Filter) attempt {
	return attempt{what, func(ctx context.Context) []error {
		for _, err := range s.List(ctx, f) {
			if err != nil {
				return []error{err}
			}
		}
		return []error{nil}
	}}
}

// breaks cuts the store off from its data until the returned function is called.
func (b *bench) breaks() (restore func()) {
	b.t.Helper()
	b.needs(b.Break != nil, "way to cut the store off from its data")
	return b.Break(b.t)
}

// answers waits until the store answers again.
func (b *bench) answers() {
	b.t.Helper()
	b.insists(listing("list", once(b.Store), driver.Filter{}))
}

// In a store that cannot reach its data no call succeeds, none returns held, lost or free,
// and none says that a retry is useless. When the data can be reached again, they are
// unchanged, because no request arrives later.
func unreachable(b *bench) {
	held, also := b.acquire(b.request("held", "a")), b.acquire(b.request("also held", "a"))
	free := b.request("free", "a")
	before := b.list(driver.Filter{Expired: true})
	s := once(b.Store)
	all := []attempt{
		acquiring("acquire of a free resource", s, free),
		acquiring("acquire of a held resource", s, b.request("held", "b")),
		acquiring("acquire by the holder's lock ID", s, b.request("held", "a")),
		acquiring("repeat of a granted acquire", s, request(held.request)),
		renewing("renewal", s, 2*b.long, held),
		renewing("renewals of two records", s, 2*b.long, held, also),
		releasing("release", s, held),
		releasing("releases in two records", s, held, also),
		releasing("release of a missing hold", s, hold{HoldRef: driver.HoldRef{Resource: "free", LockID: "a", HoldID: free.HoldID}}),
		listing("list", s, driver.Filter{}),
		listing("list of one resource", s, driver.Filter{Resource: "held"}),
		{"sweep", func(ctx context.Context) []error {
			_, err := s.Sweep(ctx, driver.SweepRequest{Idle: b.long})
			return []error{err}
		}},
	}
	if b.Store.Traits().Shared {
		all = append(all, acquiring("shared acquire", s, b.request("read", "a").shared(2)))
	}
	// This handle first fails in its Init. Its Init may succeed if there is nothing to
	// prepare, but no other call may.
	if b.Reopen != nil {
		other := b.Reopen(b.t)
		b.handles = append(b.handles, other)
		fresh := once(other)
		all = append(all, attempt{"Init, and then an acquire", func(ctx context.Context) []error {
			if i, ok := fresh.(driver.Initializer); ok {
				if err := i.Init(ctx); err != nil {
					return []error{err}
				}
			}
			return acquiring("", fresh, free).do(ctx)
		}})
	}
	for range 2 { // the second time over new connections
		restore := b.breaks()
		b.attempts(all)
		b.attempts(all) // by now the connections are known to be broken
		restore()
		b.answers()
	}
	after := b.list(driver.Filter{Expired: true})
	if fmt.Sprint(ends(before)) != fmt.Sprint(ends(after)) {
		b.t.Errorf("before the outage the list was\n%+v, and after it\n%+v", ends(before), ends(after))
	}
	if again := b.acquire(request(held.request)); again.Token != held.Token {
		b.t.Errorf("the repeat was granted token %d, before it was %d", again.Token, held.Token)
	}
	b.renew(held.HoldRef, 2*b.long)
	b.refused(b.request("held", "b"))
	b.found(b.release(also.HoldRef, 0), true, "release")
	b.acquire(free)
}

// A request that could not be written was not applied, even if the store could read
// everything that it needs: nothing is granted, renewed, released or swept. Requests that
// need no write may be answered, and then correctly.
func writesFail(b *bench) {
	b.needs(b.BreakWrites != nil, "way to have its writes fail")
	held, also := b.acquire(b.request("held", "a")), b.acquire(b.request("also held", "a"))
	b.acquire(b.request("expired", "a").ttl(b.short))
	b.pass(b.short)
	free, s := b.request("free", "a"), once(b.Store)
	writes := []attempt{
		acquiring("acquire of a free resource", s, free),
		acquiring("acquire of an expired hold's resource", s, b.request("expired", "b")),
		renewing("renewal", s, 2*b.long, held),
		renewing("renewals of two records", s, 2*b.long, held, also),
		releasing("release", s, held),
		releasing("releases in two records", s, held, also),
		{"sweep that removed something", func(ctx context.Context) []error {
			r, err := s.Sweep(ctx, driver.SweepRequest{Idle: b.long})
			if err == nil && r == (driver.SweepResult{}) {
				return nil // it has changed nothing
			}
			return []error{err}
		}},
	}
	refusals := []attempt{
		acquiring("acquire of a held resource", s, b.request("held", "b")),
		acquiring("acquire by the holder's lock ID", s, b.request("held", "a")),
	}
	repeats := []attempt{acquiring("repeat of a granted acquire", s, request(held.request))}
	if b.Store.Traits().Shared {
		writes = append(writes, acquiring("shared acquire", s, b.request("read", "a").shared(2)))
	}
	failed := func(what string, err error) {
		b.t.Helper()
		if !errors.Is(err, driver.ErrUnusable) {
			b.unknown(what, err)
		}
	}
	for range 2 {
		before := fmt.Sprint(ends(b.list(driver.Filter{})))
		restore := b.BreakWrites(b.t)
		b.try(patience, writes, failed)
		b.try(patience, refusals, func(what string, err error) {
			if !errors.Is(err, driver.ErrHeld) {
				failed(what, err)
			}
		})
		b.try(patience, repeats, func(what string, err error) {
			if err != nil {
				failed(what, err)
			}
		})
		restore()
		b.answers()
		if after := fmt.Sprint(ends(b.list(driver.Filter{}))); before != after {
			b.t.Errorf("before the fault the list was\n%s, and after it\n%s", before, after)
		}
	}
	b.insists(renewing("renewal", s, 2*b.long, held))
	if again := b.acquire(request(held.request)); again.Token != held.Token {
		b.t.Errorf("the repeat was granted token %d, before it was %d", again.Token, held.Token)
	}
	b.refused(b.request("held", "b"))
	b.found(b.release(also.HoldRef, 0), true, "release")
	b.acquire(free)
}

// ends removes from statuses what changes with time.
func ends(all []driver.Status) []driver.Status {
	for i := range all {
		all[i].Seen, all[i].Left = time.Time{}, 0
	}
	return all
}

// A watcher learns of releases while the store is cut off, and just after that: by a signal
// or by the end of the channel.
func wakesAfterOutage(b *bench) {
	b.needsWatch()
	h := b.acquire(b.request("r", "a"))
	signals, _ := b.watch("r")
	var beside driver.Store
	if b.Beside != nil {
		beside = b.Beside(b.t)
		b.handles = append(b.handles, beside)
		b.init(beside)
	}
	restore := b.breaks()
	if beside != nil {
		if err := releasing("release", beside, h).do(b.t.Context())[0]; err != nil {
			b.t.Fatal(err)
		}
	}
	w, ok := once(b.Store).(driver.Watcher)
	if !ok {
		b.t.Fatal("Traits.Notifies is set, but the store is not a driver.Watcher")
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	// The stream may be broken without the store knowing yet.
	if _, err := w.Watch(ctx, "another"); err != nil {
		b.unknown("watch", err)
	}
	restore()
	if beside == nil {
		b.answers()
		b.release(h.HoldRef, 0)
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	signal := func(what string) (open bool) {
		b.t.Helper()
		select {
		case _, open = <-signals:
		case <-timeout.C:
			b.t.Fatalf("%s: neither a signal nor the end of them came within %v", what, within)
		}
		return open
	}
	open := signal("the outage is over")
	b.answers()
	if !open {
		signals, _ = b.watch("r") // again, as programs may after a while
	}
	for range 2 { // one signal may be left from before
		b.release(b.acquire(b.request("r", "b")).HoldRef, 0)
		signal("a release after the outage")
	}
}

// Confirmed changes outlive a crash of the store: see Traits.Durable.
func restarted(b *bench) {
	b.needs(b.Restart != nil && b.Store.Traits().Durable, "data that outlive a crash, or way to restart it")
	held := b.acquire(b.request("r", "a"))
	b.renew(held.HoldRef, 2*b.long)
	renewed := b.live(held)
	gone := b.acquire(b.request("other", "a"))
	b.release(gone.HoldRef, 0)
	b.Restart(b.t)
	b.answers()
	if got := b.live(held); got.Renewed != renewed.Renewed || got.Token != renewed.Token {
		b.t.Errorf("list shows %+v after the crash, and showed %+v before", got, renewed)
	}
	b.refused(b.request("r", "b"))
	if again := b.acquire(request(held.request)); again.Token != held.Token {
		b.t.Errorf("the repeat was granted token %d, before it was %d", again.Token, held.Token)
	}
	b.rises(gone, b.acquire(b.request("other", "b")))
	b.found(b.release(held.HoldRef, 0), true, "release")
	b.rises(held, b.acquire(b.request("r", "b")))
}

// A crash may have lost holds: see driver.LossWatcher.
func signalsLoss(b *bench) {
	w, ok := once(b.Store).(driver.LossWatcher)
	b.needs(ok && b.Restart != nil, "signals of losses, or way to restart it")
	signals, err := w.WatchLoss(b.t.Context())
	if errors.Is(err, driver.ErrUnsupported) {
		b.t.Skip("the store cannot notice losses, as configured")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.Restart(b.t)
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case _, open := <-signals:
		if !open {
			b.t.Error("the channel of the signals was closed")
		}
	case <-timeout.C:
		b.t.Errorf("no signal within %v after a crash", within)
	}
	b.answers()
}

// While the copies that the store promises get nothing, no call returns a grant or a later
// end: a copy that takes over would have neither. This applies also to a repeat, which finds
// the hold of the first attempt only on the primary.
func copiesGetNothing(b *bench) {
	b.needs(b.HoldCopies != nil, "copies that it waits for")
	s := once(b.Store)
	// Copies may also be late without HoldCopies.
	grant := func(q request) (h hold) {
		b.insists(acquiring("acquire", s, q))
		for _, st := range b.list(driver.Filter{Resource: q.Resource, LockID: q.LockID}) {
			h.HoldRef = st.Ref()
		}
		return h
	}
	held, asked := grant(b.request("held", "a")), b.request("asked", "a")
	resume := b.HoldCopies(b.t)
	b.attempts([]attempt{acquiring("acquire", s, asked), renewing("renewal", s, 3*b.long, held)})
	b.attempts([]attempt{
		acquiring("repeated acquire", s, asked),
		// The primary has a later end already, so this renewal moves nothing.
		renewing("renewal that moves no end", s, 2*b.long, held),
	})
	b.attempts([]attempt{acquiring("acquire that was repeated twice", s, asked)})
	resume()
	if h := grant(asked); h.HoldID != asked.HoldID {
		b.t.Errorf("list shows %+v, want the requested hold: %v", h, asked.HoldID)
	}
	b.insists(renewing("renewal", s, b.long, held))
	b.refused(b.request("asked", "b"))
}

// insists repeats the attempt until it succeeds.
func (b *bench) insists(a attempt) {
	b.t.Helper()
	b.eventually(10*time.Millisecond, a.what+" succeeds", func() bool {
		ctx, cancel := context.WithTimeout(b.t.Context(), 10*patience)
		defer cancel()
		err := a.do(ctx)[0]
		if err != nil && definite(err) {
			b.t.Fatalf("%s: %v", a.what, err)
		}
		return err == nil
	})
}
