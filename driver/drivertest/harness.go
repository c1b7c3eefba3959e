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

// Harness is one store under test, with what the suite cannot do through the
// driver. Nobody else may use its data, not even another subtest.
type Harness struct {
	// Store is the store under test. The suite closes it.
	Store driver.Store
	// Reopen returns another handle on the same data, as another process would
	// have it. The suite closes it. nil: there is no such thing; what needs it
	// is skipped.
	Reopen func(t *testing.T) driver.Store
	// Advance moves the store's clock by exactly d, which may be negative, and
	// nothing else moves it: a store in a program gets its clock from its options, as
	// memlock does, and a server a clock of its own. It needs Now. nil: the clock
	// cannot be moved; the suite then waits until the store returns that a hold is
	// past its end.
	Advance func(d time.Duration)
	// Now is the store's clock, which stands still unless Advance is called. nil:
	// unknown, or it passes; exact comparisons then become bounds.
	Now func() time.Time
	// Short is the TTL of holds whose end the suite waits for if it cannot advance
	// the clock: longer than a few requests take. 0: 500 ms.
	Short time.Duration
	// RenewalsUntold says that a renewal may return driver.Unknown for the time left,
	// although Now is known: the reply to a batch may have no room for it. The suite
	// then compares a list. All other calls must return it.
	RenewalsUntold bool
	// EndlessRenewed says that Store acquires a hold without an end as one that ends, and
	// renews it then, as a server does. It is shown as one that was renewed.
	EndlessRenewed bool
	// HidesPlaces says that lists and refusals of Store show no IDs of places, as those of a
	// server.
	HidesPlaces bool
	// Uncounted says that Store does not keep the records of resources without holds
	// as package model does: a release deletes them, or the store never deletes one.
	// The suite then does not compare how many a sweep deletes.
	Uncounted bool
	// Damage makes the resource's record unreadable, as by hand. nil: skipped.
	Damage func(t *testing.T, resource string)
	// Break cuts the store off from its data, until restore is called: the requests
	// of all its handles get nowhere, and no answer comes. The failure may pass by
	// itself, like that of a network; so no call may return a named error, not even
	// ErrUnusable. nil: skipped.
	Break func(t *testing.T) (restore func())
	// BreakWrites makes all writes of the store fail until restore is called, while
	// reads work: a disk that is full, a server that is read-only for a while or
	// lacks copies. Somebody may have to fix that, so calls may return ErrUnusable.
	// It takes effect when it has returned. nil: skipped.
	BreakWrites func(t *testing.T) (restore func())
	// Beside returns another handle on the same data, which Break does not cut off.
	// The suite closes it. nil: there is none, and nothing happens while the store is
	// cut off.
	Beside func(t *testing.T) driver.Store
	// Restart lets the store crash, without a chance to tidy up, and start again
	// with what is on its disk. It may return before the store answers. nil: skipped.
	Restart func(t *testing.T)
	// HoldCopies keeps what is written from the copies that the store waits for
	// before it answers, until resume is called. nil: it has none; skipped.
	HoldCopies func(t *testing.T) (resume func())
	// Repeats says that Store may apply a request more than once before it
	// answers. Whether a release found its hold is then not known, nor how much
	// a sweep removed. WithFaults sets it.
	Repeats bool
}

// bench is a Harness in one subtest: what a subtest does there must succeed, or
// the subtest ends.
type bench struct {
	*Harness
	t    *testing.T
	open func(t *testing.T) *Harness
	// short is a TTL to wait for, long one that never ends meanwhile. See also brief.
	short, long time.Duration
	handles     []driver.Store
	marked      bool // pass has left a record of its own
}

// brief is a TTL that is less than bench.long, and that no few requests outlast.
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

// standsStill ends the test if the clock passes by itself: comparisons with it
// would fail now and then, each in a way of its own.
func (h *Harness) standsStill(t *testing.T) {
	t.Helper()
	switch {
	case h.Now == nil && h.Advance == nil:
		return
	case h.Now == nil || h.Advance == nil:
		t.Fatal("the harness needs both Advance and Now, or neither: one is of no use without the other")
	}
	before := h.Now()
	time.Sleep(2 * time.Millisecond) // of another clock than Now's
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

// other returns another handle on the data where there can be one.
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

// needs skips the subtest if the harness cannot do what it is about.
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

// pass lets d go by on the store's clock.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	if b.Advance != nil {
		b.Advance(d)
		return
	}
	b.passing(d, func() {})
}

// passing lets d go by, and does something meanwhile, but not at the end.
func (b *bench) passing(d time.Duration, meanwhile func()) {
	b.t.Helper()
	if b.Advance != nil {
		b.Advance(d / 2)
		meanwhile()
		b.Advance(d - d/2)
		return
	}
	b.marked = true
	marker := b.acquire(b.request("passing time", "clock "+driver.NewHoldID().String()).ttl(d))
	// A test that polls all the time would delay others that wait for the server.
	b.eventually(max(3*time.Millisecond, d/50), "a hold comes to its end", func() bool {
		s, ok := b.find(marker.Resource, marker.LockID)
		over := !ok || !s.Live()
		if !over {
			meanwhile()
		}
		return over
	})
	b.release(marker.HoldRef, 0)
}

// within is how long the suite waits for what must come, however busy the machine
// is.
var within = 30 * time.Second

// eventually polls until is true.
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
			b.t.Fatalf("waited %v in vain until %s", within, what)
		}
	}
}

// rounds counts what is done beside something else that it is to meet: a few times
// where a store is slow, and where it is quick as often as it takes to meet.
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

// request is an acquire in the making.
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

// hold is a request that was granted.
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
		b.t.Fatalf("token %d passes 2^53", g.Token)
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

// renew extends what must be there.
func (b *bench) renew(ref driver.HoldRef, ttl time.Duration) driver.RenewResult {
	b.t.Helper()
	r := b.renewRequest(driver.RenewRequest{HoldRef: ref, TTL: ttl})
	if r.Err != nil {
		b.t.Fatalf("renewal of %q by %q: %v", ref.Resource, ref.LockID, r.Err)
	}
	return r
}

// lost renews what must be lost.
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

// release ends a hold and says whether it was there.
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

// swept compares what a sweep removed with what it should remove.
func (b *bench) swept(got driver.SweepResult, holds, records int) {
	b.t.Helper()
	if b.Uncounted || b.marked && got.Records == records+1 {
		got.Records = records
	}
	if want := (driver.SweepResult{Holds: holds, Records: records}); got != want && !b.Repeats {
		b.t.Errorf("sweep removed %+v, want %+v", got, want)
	}
}

// list returns the holds that match, each once, by resource and token.
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

// live checks that the hold is there and unharmed, and returns its status.
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

// renewed compares what is left of a hold after its renewal with what it is at
// exactly. Where the renewal may leave that out, a list says it.
func (b *bench) renewed(what string, ref driver.HoldRef, r driver.RenewResult, want time.Duration) {
	b.t.Helper()
	left := r.Left
	if left == driver.Unknown && b.RenewalsUntold {
		s, ok := b.find(ref.Resource, ref.LockID)
		if !ok {
			b.t.Errorf("%s: the hold of %q by %q is not there", what, ref.Resource, ref.LockID)
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

// hasTokens reports whether the store has tokens, which also distinguish the holds of
// one hold ID.
func (b *bench) hasTokens() bool { return b.Store.Traits().Fencing != driver.FencingNone }

// rises checks the tokens of one resource in the order of their grants.
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
