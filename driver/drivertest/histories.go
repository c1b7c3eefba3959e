package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

var histories = []subtest{
	{"S01_random_history", randomHistories},
	{"S01_concurrent_history", concurrentHistory},
}

// The store answers random requests, many of them repeated or about old holds, in the same
// way as package model, and Judge accepts the answers.
func randomHistories(b *bench) {
	seeds := []uint64{1, 2, 3, 4, 5, rand.Uint64()}
	if b.Advance == nil {
		seeds = seeds[4:] // time has to pass in it
	}
	for _, seed := range seeds {
		b.t.Run(fmt.Sprintf("seed_%#x", seed), func(t *testing.T) {
			for n := 0; n < historySteps; {
				n += randomHistory(newHistory(newBench(t, b.open), seed+uint64(n)))
			}
		})
	}
}

const historySteps = 300

// randomHistory returns the number of steps after which it ended: in a store whose clock
// passes it ends before any place does, which the model cannot foresee.
func randomHistory(h *history) (steps int) {
	t, began := h.t, time.Now()
	for steps < historySteps && (h.Advance != nil || time.Since(began) < driver.FairPlaceTTL/2) {
		steps++
		h.step()
		if t.Failed() {
			t.Fatalf("step %d: %s", steps, h.last)
		}
	}
	if h.hasTokens() {
		for _, wrong := range Judge(h.store.Events()) {
			t.Error(wrong)
		}
	}
	return steps
}

// history sends the same requests to the store and the model.
type history struct {
	*bench
	rnd       *rand.Rand
	store     *Recorder
	records   map[string]model.Record
	now       model.Time
	resources []string
	tries     []driver.AcquireRequest // recent requests, to be repeated
	refs      []driver.HoldRef        // refs of recent holds
	places    []driver.PlaceID        // zero, or places of waiters
	last      string                  // the last step, in words
}

func newHistory(b *bench, seed uint64) *history {
	h := &history{
		bench: b, rnd: rand.New(rand.NewPCG(seed, 1)), records: make(map[string]model.Record),
		resources: []string{"r1", "r2", "r3"}, places: []driver.PlaceID{{}, {}},
	}
	if b.Store.Traits().Queue {
		for range 4 {
			h.places = append(h.places, driver.NewPlaceID())
		}
	}
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) }
	coarse := time.Millisecond
	if b.Now != nil {
		epoch := b.Now()
		clock = func() time.Duration { return b.Now().Sub(epoch) }
		coarse = 0
	}
	h.store = NewRecorder(b.Store, clock, coarse)
	h.now = model.TimeOf(start)
	return h
}

// time returns the time for the model: the store's clock, or a clock that moves only in steps
// that pass time.
func (h *history) time() model.Time {
	if h.Now != nil {
		return model.TimeOf(h.Now())
	}
	return h.now
}

func (h *history) record(resource string) model.Record {
	r, ok := h.records[resource]
	if !ok {
		r.Resource = resource
	}
	return r
}

func pick[T any](h *history, from ...T) T { return from[h.rnd.IntN(len(from))] }

// step makes one call.
func (h *history) step() {
	if h.Advance != nil && h.Store.Traits().Fencing == driver.FencingClock {
		h.Advance(time.Millisecond) // tokens need to rise only with the clock
	}
	switch n := h.rnd.IntN(100); {
	case n < 35:
		q := h.newRequest()
		if h.tries = append(h.tries, q); len(h.tries) > 8 {
			h.tries = h.tries[1:]
		}
		h.acquire(q)
	case n < 45 && len(h.tries) > 0:
		h.acquire(pick(h, h.tries...))
	case n < 60 && len(h.refs) > 0:
		h.renewSome()
	case n < 78 && len(h.refs) > 0:
		h.releaseSome()
	case n < 85:
		h.compareList(h.someFilter())
	case n < 88:
		h.compareQueues()
	case n < 92:
		h.sweepAll()
	default:
		h.letPass()
	}
}

func (h *history) newRequest() driver.AcquireRequest {
	q := driver.AcquireRequest{
		Resource: pick(h, h.resources...), LockID: pick(h, "a", "A", "b", "c"), HoldID: driver.NewHoldID(),
		Details: driver.Details{Owner: pick(h, "", "ann", "bob")},
		Place:   pick(h, h.places...),
		TTL:     h.someTTL(), TakeoverDelay: pick(h, 0, 0, 0, h.short),
	}
	if h.Store.Traits().Shared && h.rnd.IntN(3) > 0 {
		q.Mode, q.Limit = driver.Shared, pick(h, 0, 0, 2, 2, 2, 3)
	}
	if h.Advance == nil {
		q.TakeoverDelay = pick(h, 0, 0, h.long)
	}
	if h.Store.Traits().Queue {
		q.Fair = h.rnd.IntN(2) == 0
	}
	return q
}

// someTTL returns a TTL whose end the model can foresee: without a clock that can be set, one
// that does not end during the history.
func (h *history) someTTL() time.Duration {
	if h.Advance == nil {
		return pick(h, h.long, 2*h.long, driver.Forever)
	}
	return pick(h, time.Millisecond, h.short, h.short, 2*h.short, h.long, driver.Forever)
}

func (h *history) acquire(q driver.AcquireRequest) {
	h.last = fmt.Sprintf("acquire %+v", q)
	want, grant, changed, refused := h.foresee(q)
	got, err := h.store.Acquire(h.t.Context(), q)
	if (err == nil) != (refused == nil) {
		h.t.Fatalf("store says %v, model says %v\n%s", err, refused, h.last)
	}
	if err != nil {
		if h.compareRefusals(err, refused); changed {
			h.records[q.Resource] = want
		}
		return
	}
	h.left("grant", got.Left, grant.Left)
	if h.Now != nil && h.hasTokens() && got.Token != grant.Token {
		h.t.Errorf("store grants token %d, model %d", got.Token, grant.Token)
	}
	// Without the store's clock, the model gets the token from the store.
	i := slices.IndexFunc(want.Holds, func(x model.Hold) bool { return x.HoldID == q.HoldID && x.LockID == q.LockID })
	want.Holds = slices.Clone(want.Holds)
	want.Holds[i].Token, want.Token = got.Token, max(want.Token, got.Token)
	h.records[q.Resource] = want
	h.refs = append(h.refs, driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: got.Token})
	if len(h.refs) > 12 {
		h.refs = h.refs[1:]
	}
}

// foresee returns the model's answer to an acquire.
func (h *history) foresee(q driver.AcquireRequest) (r model.Record, g driver.Grant, changed bool, err error) {
	if !h.EndlessRenewed || q.TTL != driver.Forever {
		return model.Acquire(h.record(q.Resource), h.time(), q)
	}
	q.TTL = time.Minute
	r, g, changed, err = model.Acquire(h.record(q.Resource), h.time(), q)
	if err == nil && g.Left != driver.Forever {
		ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
		var renewed driver.RenewResult
		r, renewed = model.Renew(r, h.time(), driver.RenewRequest{HoldRef: ref, TTL: driver.Forever})
		g.Left, err = renewed.Left, renewed.Err
	}
	return r, g, changed, err
}

func (h *history) compareRefusals(err, refused error) {
	var got, want *driver.HeldError
	if !errors.As(err, &got) || !errors.As(refused, &want) {
		h.t.Fatalf("store says %v, model says %v", err, refused)
	}
	if got.LimitDiffers != want.LimitDiffers {
		h.t.Errorf("store says that limits differ: %v, model %v", got.LimitDiffers, want.LimitDiffers)
	}
	if got.BySelf != want.BySelf {
		h.t.Errorf("store says by itself: %v, model %v", got.BySelf, want.BySelf)
	}
	h.left("ask again", got.RetryAfter, want.RetryAfter)
	if h.Now != nil && len(got.Holders) > 0 {
		h.compareStatuses(got.Holders, want.Holders)
	}
	if got.Position != want.Position || got.Waiters != want.Waiters {
		h.t.Errorf("store says position %d of %d, model %d of %d", got.Position, got.Waiters, want.Position, want.Waiters)
	}
	h.comparePlaces(got.Ahead, want.Ahead)
}

// comparePlaces compares places in their order.
func (h *history) comparePlaces(got, want []driver.Place) {
	known := func(ps []driver.Place) []driver.Place {
		ps = slices.Clone(ps)
		for i := range ps {
			p := &ps[i]
			if h.HidesPlaces {
				p.ID = driver.PlaceID{}
			}
			p.Since, p.Asked, p.Seen = p.Since.UTC(), p.Asked.UTC(), p.Seen.UTC()
			if h.Now == nil {
				p.Since, p.Asked, p.Seen, p.Left = time.Time{}, time.Time{}, time.Time{}, 0
			}
		}
		return ps
	}
	if got, want := known(got), known(want); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		h.t.Errorf("store shows the queue\n%+v, model\n%+v", got, want)
	}
}

// compareQueues compares the waiters that the store lists with the model's.
func (h *history) compareQueues() {
	if !h.Store.Traits().Queue {
		return
	}
	resource := pick(h, h.resources...)
	h.last = fmt.Sprintf("waiters of %q", resource)
	var got []driver.Place
	for p, err := range driver.Waiters(h.t.Context(), h.Store, driver.Filter{Resource: resource}) {
		if err != nil {
			h.t.Fatal(err)
		}
		if !slices.ContainsFunc(got, func(q driver.Place) bool { return q.Position == p.Position }) { // the list may have begun again
			got = append(got, p)
		}
	}
	h.comparePlaces(got, model.Places(h.record(resource), h.time(), driver.Filter{}))
}

// someRefs returns refs as they are, with fields left out, or wrong.
func (h *history) someRefs() []driver.HoldRef {
	refs := make([]driver.HoldRef, 1+h.rnd.IntN(4))
	for i := range refs {
		ref := pick(h, h.refs...)
		switch h.rnd.IntN(12) {
		case 0:
			ref.Token = 0
		case 1:
			if h.hasTokens() {
				ref.Token++
			}
		case 2:
			ref.HoldID = driver.NewHoldID()
		case 3:
			ref.LockID = "e"
		}
		refs[i] = ref
	}
	if h.rnd.IntN(12) == 0 {
		refs = refs[:1]
		refs[0].HoldID, refs[0].Token = driver.HoldID{}, 0
	}
	return refs
}

func (h *history) renewSome() {
	var qs []driver.RenewRequest
	for _, ref := range h.someRefs() {
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: h.someTTL()})
	}
	h.last = fmt.Sprintf("renew %+v", qs)
	for i := range qs {
		// The requests of a batch take effect in any order: requests for one hold in a batch
		// are equal.
		if j := slices.IndexFunc(qs, func(q driver.RenewRequest) bool { return sameHold(q.HoldRef, qs[i].HoldRef) }); j < i {
			qs[i].TTL = qs[j].TTL
		}
	}
	got, err := h.store.Renew(h.t.Context(), qs)
	if err != nil || len(got) != len(qs) {
		h.t.Fatalf("%d results, error %v", len(got), err)
	}
	for i, q := range qs {
		r, want := model.Renew(h.record(q.Resource), h.time(), q)
		if want.Err == nil {
			h.records[q.Resource] = r
		}
		switch {
		case want.Err == nil && got[i].Err != nil, want.Err != nil && !errors.Is(got[i].Err, driver.ErrLost):
			h.t.Errorf("renewal %d: store says %v, model says %v", i, got[i].Err, want.Err)
		case want.Err == nil:
			h.renewed(fmt.Sprint("renewal ", i), q.HoldRef, got[i], want.Left)
			if got[i].Waiters != want.Waiters {
				h.t.Errorf("renewal %d: store says that %d wait, model %d", i, got[i].Waiters, want.Waiters)
			}
		}
	}
}

// sameHold reports whether the refs may be about one hold.
func sameHold(a, b driver.HoldRef) bool {
	return a.Resource == b.Resource && a.LockID == b.LockID
}

func (h *history) releaseSome() {
	var qs []driver.ReleaseRequest
	after := pick(h, 0, 0, 0, h.long/2)
	if h.Advance != nil {
		after = pick(h, 0, 0, 0, h.short, h.long)
	}
	for _, ref := range h.someRefs() {
		q := driver.ReleaseRequest{HoldRef: ref, After: after}
		if h.rnd.IntN(3) == 0 {
			q.Place = pick(h, h.places...)
			if !q.Place.IsZero() && h.rnd.IntN(2) == 0 {
				q.HoldID, q.Token = driver.HoldID{}, 0 // only the place
			}
		}
		qs = append(qs, q)
	}
	h.last = fmt.Sprintf("release %+v", qs)
	got, err := h.store.Release(h.t.Context(), qs)
	if err != nil || len(got) != len(qs) {
		h.t.Fatalf("%d results, error %v", len(got), err)
	}
	var store, want int
	for i, q := range qs {
		before := h.record(q.Resource)
		r, found, _ := model.Release(before, h.time(), q)
		if r.Touched != before.Touched {
			h.records[q.Resource] = r
		}
		if found {
			want++
		}
		if got[i].Err != nil {
			h.t.Errorf("release %d: %v", i, got[i].Err)
		}
		if got[i].Found {
			store++
		}
	}
	if store != want && !h.Repeats {
		h.t.Errorf("store found %d holds to release, model %d", store, want)
	}
}

func (h *history) someFilter() driver.Filter {
	f := driver.Filter{Resource: pick(h, append(h.resources, "")...), LockID: pick(h, "", "", "a", "A")}
	if h.Now != nil {
		f.Expired = pick(h, true, false)
		f.LeftBelow = pick(h, 0, 0, h.short)
		f.LeftAtLeast = pick(h, 0, 0, h.short)
	}
	return f
}

func (h *history) compareList(f driver.Filter) {
	h.last = fmt.Sprintf("list %+v", f)
	var got, want []driver.Status
	for s, err := range h.store.List(h.t.Context(), f) {
		if err != nil {
			h.t.Fatal(err)
		}
		got = append(got, s)
	}
	for _, r := range h.records {
		if f.Resource == "" || f.Resource == r.Resource {
			want = append(want, model.Statuses(r, h.time(), f)...)
		}
	}
	h.compareStatuses(got, want)
}

func (h *history) compareStatuses(got, want []driver.Status) {
	order := func(ss []driver.Status) []driver.Status {
		ss = slices.Clone(ss)
		slices.SortFunc(ss, func(a, b driver.Status) int {
			return strings.Compare(a.Resource+"\x00"+a.HoldID.String(), b.Resource+"\x00"+b.HoldID.String())
		})
		ss = slices.CompactFunc(ss, func(a, b driver.Status) bool { return a.Ref() == b.Ref() })
		for i := range ss {
			s := &ss[i]
			s.Created, s.Renewed, s.Seen = s.Created.UTC(), s.Renewed.UTC(), s.Seen.UTC()
			if h.Now == nil { // its answers depend on the exact time of the call
				s.Created, s.Renewed, s.Seen, s.Left = time.Time{}, time.Time{}, time.Time{}, 0
			}
		}
		return ss
	}
	if got, want := order(got), order(want); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		h.t.Errorf("store shows\n%+v, model\n%+v", got, want)
	}
}

// sweepAll sweeps the store and the model. The tokens must stay the same even if one of them
// deletes a record that the other keeps.
func (h *history) sweepAll() {
	idle := pick(h, time.Millisecond, h.short, h.long)
	h.last = fmt.Sprintf("sweep %v", idle)
	got, err := h.store.Sweep(h.t.Context(), driver.SweepRequest{Idle: idle})
	if err != nil {
		h.t.Fatal(err)
	}
	var want driver.SweepResult
	for name, r := range h.records {
		r, dropped, remove := model.Sweep(r, h.time(), idle)
		h.records[name] = r
		want.Holds += dropped
		if remove {
			delete(h.records, name)
			want.Records++
		}
	}
	if h.Uncounted {
		got.Records = want.Records
	}
	if h.Now != nil && !h.Repeats && got != want {
		h.t.Errorf("store swept %+v, model %+v", got, want)
	}
}

func (h *history) letPass() {
	if h.Advance != nil {
		d := pick(h, time.Microsecond, time.Millisecond, h.short/2, h.short, h.short-time.Millisecond, 2*h.short,
			driver.FairPlaceTTL/4, driver.FairPlaceTTL)
		h.Advance(d)
		h.compareList(driver.Filter{}) // no call reports what time alone changes
		h.last = fmt.Sprintf("pass %v and list", d)
		return
	}
	// A hold with a short TTL, and then time for it to end, in the store and the model.
	q := h.newRequest()
	q.TTL, q.TakeoverDelay = time.Millisecond, 0
	if h.Repeats {
		// A grant whose reply is lost takes its place out of the queue, and the hold has
		// ended before the repeat, which is then behind others.
		q.Place = driver.PlaceID{}
	}
	h.acquire(q)
	h.last = "pass"
	h.pass(2 * time.Millisecond)
	h.now += 2000
}
