package fitness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
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

	unseen  bool   // a record may still have what has expired, or no longer
	doing   string // what is asked
	asked   int
	slowest time.Duration            // of the store's answers
	granted map[driver.HoldID]uint64 // the store's tokens
	tried   []driver.ReleaseRequest  // all holds and places that there may be
	last    uint64                   // the store's last token

	began  time.Time
	placed time.Time // when the first place was asked for
	late   bool      // not all requests were made in time
	err    error     // the store gave no answer
	wrong  string    // its answer is not the model's
}

func newTwin(ctx context.Context, store driver.Store, resource string, ttl time.Duration) *twin {
	return &twin{
		ctx: ctx, store: store, model: memlock.New(nil), traits: store.Traits(), resource: resource, ttl: ttl,
		granted: make(map[driver.HoldID]uint64), began: time.Now(),
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
	t.tried = append(t.tried, driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}, Place: q.Place})
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
	case repeated && before != got.Token:
		t.differs("another token than the first time", "the same")
	case !repeated && got.Token <= t.last:
		t.differs("a token that is not above the last one", "one that is")
	}
	t.granted[q.HoldID] = got.Token
	t.last = max(t.last, got.Token)
	t.record("a look after " + what)
}

// ref names a hold in the store or in the model, whose token nobody needs to know.
func (t *twin) ref(s driver.Store, q driver.AcquireRequest) driver.HoldRef {
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	if s != t.model {
		ref.Token = t.granted[q.HoldID]
	}
	return ref
}

func (t *twin) renew(what string, ttl time.Duration, qs ...driver.AcquireRequest) {
	ask(t, what, func(ctx context.Context, s driver.Store) ([]driver.RenewResult, error) {
		var rs []driver.RenewRequest
		for _, q := range qs {
			rs = append(rs, driver.RenewRequest{HoldRef: t.ref(s, q), TTL: ttl})
		}
		return s.Renew(ctx, rs)
	}, t.renewed, func(r driver.RenewResult) error { return r.Err })
}

// release releases holds after a delay, or with givesUp their places in the queue.
func (t *twin) release(what string, after time.Duration, qs ...driver.AcquireRequest) {
	ask(t, what, func(ctx context.Context, s driver.Store) ([]driver.ReleaseResult, error) {
		var rs []driver.ReleaseRequest
		for _, q := range qs {
			rs = append(rs, driver.ReleaseRequest{HoldRef: t.ref(s, q), After: after})
			if after == givesUp {
				rs[len(rs)-1] = driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID}, Place: q.Place}
			}
		}
		return s.Release(ctx, rs)
	}, ended, func(r driver.ReleaseResult) error { return r.Err })
}

// givesUp is the delay of a release that gives up places instead.
const givesUp = -1

// ask sends the same renewals or releases to the store and to the model.
func ask[A any](t *twin, what string, send func(context.Context, driver.Store) ([]A, error), describe func(got, want A) string, failure func(A) error) {
	if t.ended() {
		return
	}
	t.doing = what
	answers, err := call(t, func(ctx context.Context) ([]A, error) { return send(ctx, t.store) })
	expected, _ := send(t.ctx, t.model)
	switch {
	case err != nil:
		t.err = err
		return
	case len(answers) != len(expected):
		t.differs(fmt.Sprintf("%d answers", len(answers)), fmt.Sprint(len(expected)))
		return
	}
	var got, want []string
	for i, a := range answers {
		if t.err = failure(a); errors.Is(t.err, driver.ErrLost) {
			t.err = nil // which is an answer
		} else if t.err != nil {
			return
		}
		got, want = append(got, describe(a, expected[i])), append(want, describe(expected[i], expected[i]))
	}
	t.same(strings.Join(got, ", "), strings.Join(want, ", "))
	t.record("a look after " + what)
}

// record compares the holds and the places of the resource.
func (t *twin) record(what string) {
	if t.unseen || t.ended() {
		return
	}
	t.doing = what
	f := driver.Filter{Resource: t.resource, Expired: true}
	want, _ := collect.All(t.model.List(t.ctx, f))
	got, err := call(t, func(ctx context.Context) ([]driver.Status, error) { return collect.All(t.store.List(ctx, f)) })
	if t.err = err; err != nil {
		return
	}
	for i := range want {
		want[i].Token = t.granted[want[i].HoldID]
	}
	t.same(t.holds(got, want), t.holds(want, want))
	if !t.traits.Queue || t.ended() {
		return
	}
	queue, _ := collect.All(driver.Waiters(t.ctx, t.model, f))
	places, err := call(t, func(ctx context.Context) ([]driver.Place, error) { return collect.All(driver.Waiters(ctx, t.store, f)) })
	if t.err = err; err != nil {
		return
	}
	t.same(t.places(places, queue), t.places(queue, queue))
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
