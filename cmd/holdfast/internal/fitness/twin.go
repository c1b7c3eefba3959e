package fitness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// twin makes the same requests of a store and of a store in memory, which decides by package
// driver/model. It stops at the first answer that differs.
type twin struct {
	ctx          context.Context
	store, model driver.Store
	traits       driver.Traits
	resource     string
	ttl          time.Duration

	doing   string // what is asked
	asked   int
	slowest time.Duration // of the store's answers
	granted map[driver.HoldID]tokens
	tried   []driver.ReleaseRequest // all holds and places that there may be
	last    uint64                  // the store's last token

	began  time.Time
	placed time.Time // when the first place was asked for
	late   bool      // not all requests were made in time
	err    error     // the store gave no answer
	wrong  string    // its answer is not the model's
}

// tokens are those of a hold in both stores.
type tokens struct{ store, model uint64 }

func newTwin(ctx context.Context, store driver.Store, resource string, ttl time.Duration) *twin {
	return &twin{
		ctx: ctx, store: store, model: memlock.New(nil), traits: store.Traits(), resource: resource, ttl: ttl,
		granted: make(map[driver.HoldID]tokens), began: time.Now(),
	}
}

// wait lets what is short expire.
func (t *twin) wait() {
	if t.ended() {
		return
	}
	select {
	case <-time.After(expiry):
	case <-t.ctx.Done():
		t.err = t.ctx.Err()
	}
}

// ended reports whether no more requests are to be made.
func (t *twin) ended() bool {
	t.late = t.late || time.Since(t.began) > twinTime
	return t.late || t.err != nil || t.wrong != ""
}

// call makes a request of the store.
func call[T any](t *twin, f func(context.Context) (T, error)) (T, error) {
	t.asked++
	began := time.Now()
	r, err := within(t.ctx, f)
	t.slowest = max(t.slowest, time.Since(began))
	return r, err
}

func (t *twin) acquire(what string, q driver.AcquireRequest) {
	if t.ended() {
		return
	}
	t.doing = what
	t.tried = append(t.tried, driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: t.resource, LockID: q.LockID, HoldID: q.HoldID}, Place: q.Place})
	got, err := call(t, func(ctx context.Context) (driver.Grant, error) { return t.store.Acquire(ctx, q) })
	want, refused := t.model.Acquire(t.ctx, q)
	if err != nil && !errors.Is(err, driver.ErrHeld) {
		t.err = err
		return
	}
	t.same(t.grant(got, err, want), t.grant(want, refused, want))
	if t.ended() || err != nil {
		return
	}
	before, repeated := t.granted[q.HoldID]
	switch {
	case t.traits.Fencing == driver.FencingNone:
	case repeated && before.store != got.Token:
		t.differs("another token than the first time", "the same")
	case !repeated && got.Token <= t.last:
		t.differs("a token that is not above the last one", "one that is")
	}
	t.granted[q.HoldID] = tokens{got.Token, want.Token}
	t.last = max(t.last, got.Token)
}

func (t *twin) renew(what string, ttl time.Duration, qs ...driver.AcquireRequest) {
	var rs []driver.RenewRequest
	for _, q := range qs {
		rs = append(rs, driver.RenewRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}, TTL: ttl})
	}
	t.ask(what, rs, nil)
}

func (t *twin) release(what string, after time.Duration, qs ...driver.AcquireRequest) {
	var rs []driver.ReleaseRequest
	for _, q := range qs {
		rs = append(rs, driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}, After: after})
	}
	t.ask(what, nil, rs)
}

// ask sends renewals or releases together.
func (t *twin) ask(what string, renewals []driver.RenewRequest, releases []driver.ReleaseRequest) {
	if t.ended() {
		return
	}
	t.doing = what
	mine, theirs := slices.Clone(renewals), slices.Clone(renewals)
	ends, theirEnds := slices.Clone(releases), slices.Clone(releases)
	for i, r := range renewals {
		mine[i].Token, theirs[i].Token = t.granted[r.HoldID].store, t.granted[r.HoldID].model
	}
	for i, r := range releases {
		ends[i].Token, theirEnds[i].Token = t.granted[r.HoldID].store, t.granted[r.HoldID].model
	}
	var got, want []string
	if len(renewals) > 0 {
		answers, err := call(t, func(ctx context.Context) ([]driver.RenewResult, error) { return t.store.Renew(ctx, mine) })
		expected, _ := t.model.Renew(t.ctx, theirs)
		if err == nil && len(answers) != len(mine) {
			t.differs(fmt.Sprintf("%d answers", len(answers)), fmt.Sprint(len(mine)))
			return
		}
		for i := range expected {
			if err == nil {
				if err = answers[i].Err; errors.Is(err, driver.ErrLost) {
					err = nil
				}
			}
			if err != nil {
				t.err = err
				return
			}
			got, want = append(got, t.renewed(answers[i], expected[i])), append(want, t.renewed(expected[i], expected[i]))
		}
	} else {
		answers, err := call(t, func(ctx context.Context) ([]driver.ReleaseResult, error) { return t.store.Release(ctx, ends) })
		expected, _ := t.model.Release(t.ctx, theirEnds)
		if err == nil && len(answers) != len(ends) {
			t.differs(fmt.Sprintf("%d answers", len(answers)), fmt.Sprint(len(ends)))
			return
		}
		for i := range expected {
			if err == nil {
				err = answers[i].Err
			}
			if err != nil {
				t.err = err
				return
			}
			got, want = append(got, ended(answers[i])), append(want, ended(expected[i]))
		}
	}
	t.same(strings.Join(got, ", "), strings.Join(want, ", "))
}

// record compares the holds and the places of the resource.
func (t *twin) record(what string) {
	if t.ended() {
		return
	}
	t.doing = what
	f := driver.Filter{Resource: t.resource, Expired: true}
	want, _ := listed(t.ctx, t.model, f)
	got, err := call(t, func(ctx context.Context) ([]driver.Status, error) { return listed(ctx, t.store, f) })
	if t.err = err; err != nil {
		return
	}
	t.same(t.holds(got, want, false), t.holds(want, want, true))
	if !t.traits.Queue || t.ended() {
		return
	}
	queue, _ := waiting(t.ctx, t.model, f)
	places, err := call(t, func(ctx context.Context) ([]driver.Place, error) { return waiting(ctx, t.store, f) })
	if t.err = err; err != nil {
		return
	}
	t.same(t.places(places, queue), t.places(queue, queue))
}

func listed(ctx context.Context, s driver.Store, f driver.Filter) (holds []driver.Status, err error) {
	for h, err := range s.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, nil
}

func waiting(ctx context.Context, s driver.Store, f driver.Filter) (places []driver.Place, err error) {
	for p, err := range driver.Waiters(ctx, s, f) {
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// leave releases what may be left, whatever the answers were.
func (t *twin) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), stepTime)
	defer cancel()
	if len(t.tried) > 0 {
		_, _ = t.store.Release(ctx, t.tried)
	}
	_ = t.model.Close()
}
