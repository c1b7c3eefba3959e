package drivertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Harness is one store under test, with operations that package driver does not have. Nothing
// else may use its data, not even another subtest.
type Harness struct {
	// Store is the store under test. The suite closes it.
	Store driver.Store
	// Reopen returns another handle on the same data, as another process would have it. The
	// suite closes it. nil means that there is none: subtests that need it are skipped.
	Reopen func(t *testing.T) driver.Store
	// Advance moves the store's clock by exactly d, which may be negative. Nothing else may
	// move the clock: a store in a program gets its clock from its options, as memlock does,
	// and a server has a clock of its own. Advance needs Now. nil means that the clock cannot
	// be moved: the suite then waits until the store reports that a hold has expired.
	Advance func(d time.Duration)
	// Now returns the store's clock, which stands still unless Advance is called. nil means
	// that the clock is unknown or passes: exact comparisons then become bounds.
	Now func() time.Time
	// Short is the TTL of holds whose end the suite waits for if it cannot advance the clock.
	// It must be longer than a few requests take. 0 means 500 ms.
	Short time.Duration
	// RenewalsUntold says that a renewal may return driver.Unknown for the time left although
	// Now is known, because the reply to a batch has no room for it. The suite then compares
	// a list instead. All other calls must return the time left.
	RenewalsUntold bool
	// EndlessRenewed says that Store acquires a hold without an end with a finite TTL and
	// then renews it, as a server does. Lists show it as renewed.
	EndlessRenewed bool
	// HidesPlaces says that lists and refusals of Store do not show the IDs of places, as
	// with a server.
	HidesPlaces bool
	// Uncounted says that Store does not keep the records of resources without holds in the
	// way of package model: a release deletes them, or the store never deletes one. The suite
	// then does not compare how many records a sweep deletes.
	Uncounted bool
	// Damage makes the resource's record unreadable, as somebody might by hand. nil: skipped.
	Damage func(t *testing.T, resource string)
	// Break cuts the store off from its data until restore is called: the requests of all its
	// handles get no answer. The failure may be temporary, like that of a network, so no call
	// may return a named error, not even ErrUnusable. nil: skipped.
	Break func(t *testing.T) (restore func())
	// BreakWrites makes all writes of the store fail until restore is called, while reads
	// work, as with a full disk, or a server that is read-only for a while or lacks copies.
	// Somebody may have to fix that, so calls may return ErrUnusable. Writes fail once
	// BreakWrites has returned. nil: skipped.
	BreakWrites func(t *testing.T) (restore func())
	// Beside returns another handle on the same data, which Break does not cut off. The suite
	// closes it. nil means that there is none: nothing then happens while the store is cut
	// off.
	Beside func(t *testing.T) driver.Store
	// Restart crashes the store, without a clean shutdown, and starts it again with the data
	// on its disk. It may return before the store answers. nil: skipped.
	Restart func(t *testing.T)
	// HoldCopies keeps writes from the copies that the store waits for before it answers,
	// until resume is called. nil means that the store has no copies: skipped.
	HoldCopies func(t *testing.T) (resume func())
	// Repeats says that Store may apply a request more than once before it answers. It is
	// then unknown whether a release found its hold, and how much a sweep removed. WithFaults
	// sets it.
	Repeats bool
}

// bench is a Harness in one subtest. Its methods end the subtest if they fail.
type bench struct {
	*Harness
	t    *testing.T
	open func(t *testing.T) *Harness
	// short is a TTL to wait for, long one that does not end during the subtest. See also
	// brief.
	short, long time.Duration
	handles     []driver.Store
	marked      bool // pass has made a record of its own
}

// brief is a TTL that is shorter than bench.long, but longer than a few requests take.
const brief = 10 * time.Second

func newBench(t *testing.T, open func(t *testing.T) *Harness) *bench {
	h := *open(t)
	b := &bench{Harness: &h, t: t, open: open, short: 500 * time.Millisecond, long: time.Hour}
	switch {
	case h.Advance != nil:
		b.short = 10 * time.Second
	case h.Short > 0:
		b.short = h.Short
	}
	b.handles = []driver.Store{h.Store}
	h.standsStill(t)
	t.Cleanup(func() {
		for _, s := range b.handles {
			if err := s.Close(); err != nil {
				t.Errorf("closing the store: %v", err)
			}
		}
	})
	b.init(h.Store)
	return b
}

// standsStill ends the test if the clock passes by itself: comparisons with it would fail now
// and then, each in another way.
func (h *Harness) standsStill(t *testing.T) {
	t.Helper()
	switch {
	case h.Now == nil && h.Advance == nil:
		return
	case h.Now == nil || h.Advance == nil:
		t.Fatal("the Harness needs both Advance and Now, or neither")
	}
	before := h.Now()
	time.Sleep(2 * time.Millisecond) // by another clock than Now
	if after := h.Now(); !after.Equal(before) {
		t.Fatalf("the harness's Now went from %v to %v without a call of Advance: the clock of the store must stand still. "+
			"Give the store one that does, or leave out Advance and Now", before, after)
	}
}

func (b *bench) init(s driver.Store) {
	b.t.Helper()
	if i, ok := s.(driver.Initializer); ok {
		if err := i.Init(b.t.Context()); err != nil {
			b.t.Fatalf("Init: %v", err)
		}
	}
}

// other returns another handle on the data if there is one, and otherwise the store.
func (b *bench) other() driver.Store {
	b.t.Helper()
	if b.Reopen == nil {
		return b.Store
	}
	s := b.Reopen(b.t)
	b.handles = append(b.handles, s)
	b.init(s)
	return s
}

// needs skips the subtest unless the harness can do what it needs.
func (b *bench) needs(can bool, what string) {
	b.t.Helper()
	if !can {
		b.t.Skip("this store or its harness has no " + what)
	}
}

func (b *bench) needsShared() {
	b.t.Helper()
	b.needs(b.Store.Traits().Shared, "shared holds")
}

// pass lets d pass on the store's clock.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	if b.Advance != nil {
		b.Advance(d)
		return
	}
	b.passing(d, func() {})
}

// passing lets d pass and calls during in that time, but not at its end.
func (b *bench) passing(d time.Duration, during func()) {
	b.t.Helper()
	if b.Advance != nil {
		b.Advance(d / 2)
		during()
		b.Advance(d - d/2)
		return
	}
	b.marked = true
	marker := b.acquire(b.request("passing time", "clock "+driver.NewHoldID().String()).ttl(d))
	// Polling all the time would delay other tests that use the server.
	b.eventually(max(3*time.Millisecond, d/50), "a hold comes to its end", func() bool {
		s, ok := b.find(marker.Resource, marker.LockID)
		over := !ok || !s.Live()
		if !over {
			during()
		}
		return over
	})
	b.release(marker.HoldRef, 0)
}

// within is how long the suite waits for an event that must come, however busy the machine
// is.
var within = 30 * time.Second

// eventually polls until is returns true.
func (b *bench) eventually(every time.Duration, what string, is func() bool) {
	b.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	poll := time.NewTicker(every)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			b.t.Fatalf("after %v, still waiting until %s", within, what)
		}
	}
}

// rounds returns how often to repeat an operation that is to meet another one: a few times if
// the store is slow, and otherwise as often as it takes to meet.
func rounds() iter.Seq[int] {
	return func(yield func(int) bool) {
		start := time.Now()
		for i := 0; i < 5 || time.Since(start) < 300*time.Millisecond; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// request is an acquire that is being prepared.
type request driver.AcquireRequest

// request returns a request for an exclusive hold that outlives the subtest.
func (b *bench) request(resource, lockID string) request {
	return request{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: b.long}
}

func (q request) ttl(d time.Duration) request   { q.TTL = d; return q }
func (q request) delay(d time.Duration) request { q.TakeoverDelay = d; return q }
func (q request) shared(limit int) request {
	q.Mode, q.Limit = driver.Shared, limit
	return q
}

// hold is a granted request.
type hold struct {
	driver.HoldRef
	Left    time.Duration
	request driver.AcquireRequest
}

// acquire sends a request that must be granted.
func (b *bench) acquire(q request) hold { b.t.Helper(); return b.acquireAt(b.Store, q) }

func (b *bench) acquireAt(s driver.Store, q request) hold {
	b.t.Helper()
	ask := driver.AcquireRequest(q)
	if err := ask.Validate(); err != nil {
		b.t.Fatalf("the suite made an invalid request: %v", err)
	}
	g, err := s.Acquire(b.t.Context(), ask)
	if err != nil {
		b.t.Fatalf("acquire of %q by %q: %v; it should be granted", q.Resource, q.LockID, err)
	}
	if g.Token > driver.MaxToken {
		b.t.Fatalf("token %d exceeds 2^53", g.Token)
	}
	return hold{
		HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token},
		Left:    g.Left, request: ask,
	}
}

// refused sends a request that must be refused.
func (b *bench) refused(q request) { b.t.Helper(); _ = b.refusal(q) }

// refusal sends a request that must be refused, and returns the error.
func (b *bench) refusal(q request) *driver.HeldError {
	b.t.Helper()
	_, err := b.Store.Acquire(b.t.Context(), driver.AcquireRequest(q))
	var held *driver.HeldError
	switch {
	case err == nil:
		b.t.Fatalf("acquire of %q by %q was granted; it should be held", q.Resource, q.LockID)
	case !errors.As(err, &held) || !errors.Is(err, driver.ErrHeld):
		b.t.Fatalf("acquire of %q by %q: %v; want a *driver.HeldError", q.Resource, q.LockID, err)
	case held.Resource != q.Resource:
		b.t.Errorf("held: resource %q is named, want %q", held.Resource, q.Resource)
	}
	return held
}

// renew extends a hold that must be there.
func (b *bench) renew(ref driver.HoldRef, ttl time.Duration) driver.RenewResult {
	b.t.Helper()
	r := b.renewRequest(driver.RenewRequest{HoldRef: ref, TTL: ttl})
	if r.Err != nil {
		b.t.Fatalf("renewal of %q by %q: %v", ref.Resource, ref.LockID, r.Err)
	}
	return r
}

// lost renews a hold that must be lost.
func (b *bench) lost(ref driver.HoldRef) {
	b.t.Helper()
	if r := b.renewRequest(driver.RenewRequest{HoldRef: ref, TTL: b.long}); !errors.Is(r.Err, driver.ErrLost) {
		b.t.Fatalf("renewal of %q by %q: error %v; want ErrLost", ref.Resource, ref.LockID, r.Err)
	}
}

func (b *bench) renewRequest(q driver.RenewRequest) driver.RenewResult {
	b.t.Helper()
	return b.renewAll([]driver.RenewRequest{q})[0]
}

func (b *bench) renewAll(qs []driver.RenewRequest) []driver.RenewResult {
	b.t.Helper()
	rs, err := b.Store.Renew(b.t.Context(), qs)
	if err != nil || len(rs) != len(qs) {
		b.t.Fatalf("%d renewals gave %d results and error %v", len(qs), len(rs), err)
	}
	return rs
}

// release ends a hold and returns whether it was there.
func (b *bench) release(ref driver.HoldRef, after time.Duration) (found bool) {
	b.t.Helper()
	return b.releaseAll([]driver.ReleaseRequest{{HoldRef: ref, After: after}})[0].Found
}

func (b *bench) releaseAll(qs []driver.ReleaseRequest) []driver.ReleaseResult {
	b.t.Helper()
	rs, err := b.Store.Release(b.t.Context(), qs)
	if err != nil || len(rs) != len(qs) {
		b.t.Fatalf("%d releases gave %d results and error %v", len(qs), len(rs), err)
	}
	for i, r := range rs {
		if r.Err != nil {
			b.t.Fatalf("release of %q by %q: %v", qs[i].Resource, qs[i].LockID, r.Err)
		}
	}
	return rs
}

// found compares Found of a release with the expected value.
func (b *bench) found(got, want bool, what string) {
	b.t.Helper()
	if got != want && !b.Repeats {
		b.t.Errorf("%s: found %v, want %v", what, got, want)
	}
}

func (b *bench) sweep(idle time.Duration) driver.SweepResult {
	b.t.Helper()
	r, err := b.Store.Sweep(b.t.Context(), driver.SweepRequest{Idle: idle})
	if err != nil {
		b.t.Fatalf("sweep: %v", err)
	}
	return r
}

// swept compares the result of a sweep with the expected one.
func (b *bench) swept(got driver.SweepResult, holds, records int) {
	b.t.Helper()
	if b.Uncounted || b.marked && got.Records == records+1 {
		got.Records = records
	}
	if want := (driver.SweepResult{Holds: holds, Records: records}); got != want && !b.Repeats {
		b.t.Errorf("sweep removed %+v, want %+v", got, want)
	}
}

// list returns the matching holds, each once, by resource and token.
func (b *bench) list(f driver.Filter) []driver.Status {
	b.t.Helper()
	return b.listAt(b.t.Context(), f)
}

func (b *bench) listAt(ctx context.Context, f driver.Filter) []driver.Status {
	b.t.Helper()
	type key struct {
		resource string
		id       driver.HoldID
	}
	seen := make(map[key]driver.Status)
	for s, err := range b.Store.List(ctx, f) {
		if err != nil {
			b.t.Fatalf("list: %v", err)
		}
		seen[key{s.Resource, s.HoldID}] = s
	}
	all := make([]driver.Status, 0, len(seen))
	for _, s := range seen {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y driver.Status) int {
		if c := strings.Compare(x.Resource, y.Resource); c != 0 {
			return c
		}
		return strings.Compare(x.HoldID.String(), y.HoldID.String())
	})
	return all
}

// find returns the hold of a lock ID, live or expired.
func (b *bench) find(resource, lockID string) (driver.Status, bool) {
	b.t.Helper()
	all := b.list(driver.Filter{Resource: resource, LockID: lockID, Expired: true})
	if len(all) == 0 {
		return driver.Status{}, false
	}
	return all[0], true
}

// live checks that the hold is there and unchanged, and returns its status.
func (b *bench) live(h hold) driver.Status {
	b.t.Helper()
	s, ok := b.find(h.Resource, h.LockID)
	if !ok || s.Ref() != h.HoldRef || !s.Live() {
		b.t.Fatalf("list shows %+v (there: %v); want the live hold %+v", s, ok, h.HoldRef)
	}
	return s
}

// left compares a duration that the store returned with the exact one.
func (b *bench) left(what string, got, want time.Duration) {
	b.t.Helper()
	switch {
	case b.Now != nil || want == driver.Forever || want == 0:
		if got != want && (got != driver.Unknown || b.Now != nil) {
			b.t.Errorf("%s: %v left, want %v", what, got, want)
		}
	case got != driver.Unknown:
		b.atMost(what, got, want)
	}
}

// renewed compares the time left after a renewal with the exact one. If the renewal may leave
// it out, renewed uses a list.
func (b *bench) renewed(what string, ref driver.HoldRef, r driver.RenewResult, want time.Duration) {
	b.t.Helper()
	left := r.Left
	if left == driver.Unknown && b.RenewalsUntold {
		s, ok := b.find(ref.Resource, ref.LockID)
		if !ok {
			b.t.Errorf("%s: the hold of %q by %q is not listed", what, ref.Resource, ref.LockID)
			return
		}
		left = s.Left
	}
	b.left(what, left, want)
}

// atMost checks bounds that hold on any clock.
func (b *bench) atMost(what string, got, most time.Duration) {
	b.t.Helper()
	if got < 0 || got > most {
		b.t.Errorf("%s: %v left, want 0 to %v", what, got, most)
	}
}

// hasTokens reports whether the store has tokens, which also distinguish the acquisitions of
// one hold ID.
func (b *bench) hasTokens() bool { return b.Store.Traits().Fencing != driver.FencingNone }

// rises checks the tokens of one resource in the order of the grants.
func (b *bench) rises(hs ...hold) {
	b.t.Helper()
	if b.Store.Traits().Fencing != driver.FencingStrict {
		return
	}
	for i := 1; i < len(hs); i++ {
		if hs[i].Token <= hs[i-1].Token {
			b.t.Errorf("token %d of %q follows token %d; tokens must rise", hs[i].Token, hs[i].Resource, hs[i-1].Token)
		}
	}
}
