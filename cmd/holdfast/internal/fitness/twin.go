package fitness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// ask sends a request to the store and to the model, and compares their answers by what
// describe says of each. It returns that of the store.
func ask[A any](t *twin, what string, send func(context.Context, driver.Store) (A, error), describe func(got, want A) string) (got A) {
	if t.ended() {
		return got
	}
	t.doing = what
	t.asked++
	began := time.Now()
	got, t.err = within(t.ctx, func(ctx context.Context) (A, error) { return send(ctx, t.store) })
	t.slowest = max(t.slowest, time.Since(began))
	want, _ := send(t.ctx, t.model)
	if t.err == nil && describe(got, want) != describe(want, want) {
		t.differs(describe(got, want), describe(want, want))
	}
	return got
}

func (t *twin) differs(got, want string) {
	if !t.placed.IsZero() && time.Since(t.placed) >= driver.FairPlaceTTL {
		t.late = true // a place may have ended in one of the two stores
		return
	}
	t.wrong = fmt.Sprintf("%s: the answer is %s, and should be %s", t.doing, got, want)
}

// left says how much time is left. It is about what it should be if the difference may be
// due to the store's answers taking their time.
func (t *twin) left(got, want time.Duration) string {
	off := (got - want).Abs()
	if got == driver.Unknown || got > 0 == (want > 0) && (got == driver.Forever) == (want == driver.Forever) && off <= time.Second+4*t.slowest {
		got = want
	}
	switch {
	case got == driver.Forever:
		return "no end"
	case got <= 0:
		return "no time left"
	}
	return got.Round(time.Millisecond).String() + " left"
}

// attempt is the answer to an acquire: a grant or a refusal.
type attempt struct {
	driver.Grant
	refused error
}

func (t *twin) acquire(what string, q driver.AcquireRequest) {
	t.tried = append(t.tried, driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}, Place: q.Place})
	got := ask(t, what, func(ctx context.Context, s driver.Store) (attempt, error) {
		g, err := s.Acquire(ctx, q)
		if errors.Is(err, driver.ErrHeld) {
			return attempt{refused: err}, nil
		}
		return attempt{Grant: g}, err
	}, t.attempt)
	if t.ended() || got.refused != nil {
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

func (t *twin) attempt(a, want attempt) string {
	if a.refused == nil {
		return "granted, " + t.left(a.Left, want.Left)
	}
	held, ok := errors.AsType[*driver.HeldError](a.refused)
	if !ok {
		return "refused, without saying by whom"
	}
	position, waiters := held.Position, held.Waiters
	if !t.traits.Queue {
		position, waiters = 0, 0
	}
	return fmt.Sprintf("refused, position %d among %d waiters, %d ahead, by itself: %v, because of the limit of others: %v",
		position, waiters, len(held.Ahead), held.BySelf, held.LimitDiffers)
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
		answers, err := s.Renew(ctx, rs)
		return answered(answers, err, len(qs), func(r driver.RenewResult) error { return r.Err })
	}, each(func(r, want driver.RenewResult) string {
		switch {
		case r.Err != nil:
			return "lost"
		case !t.traits.Queue:
			return "renewed, " + t.left(r.Left, want.Left)
		}
		return fmt.Sprintf("renewed, %s, %d wait", t.left(r.Left, want.Left), r.Waiters)
	}))
	t.record("a look after " + what)
}

// release releases holds after a delay, or with givesUp their places in the queue.
func (t *twin) release(what string, after time.Duration, qs ...driver.AcquireRequest) {
	ask(t, what, func(ctx context.Context, s driver.Store) ([]driver.ReleaseResult, error) {
		var rs []driver.ReleaseRequest
		for _, q := range qs {
			if after == givesUp {
				rs = append(rs, driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID}, Place: q.Place})
			} else {
				rs = append(rs, driver.ReleaseRequest{HoldRef: t.ref(s, q), After: after})
			}
		}
		answers, err := s.Release(ctx, rs)
		return answered(answers, err, len(qs), func(r driver.ReleaseResult) error { return r.Err })
	}, each(func(r, _ driver.ReleaseResult) string {
		if r.Found {
			return "found and released"
		}
		return "not there"
	}))
	t.record("a look after " + what)
}

// givesUp is the delay of a release that gives up places instead.
const givesUp = -1

// answered returns the answers to a batch, or an error if one of its requests has none.
func answered[A any](answers []A, err error, n int, failure func(A) error) ([]A, error) {
	for _, a := range answers {
		if failed := failure(a); failed != nil && !errors.Is(failed, driver.ErrLost) {
			err = cmp.Or(err, failed)
		}
	}
	if err == nil && len(answers) != n {
		err = fmt.Errorf("%d answers to %d requests", len(answers), n)
	}
	return answers, err
}

// each describes the answers to a batch.
func each[A any](describe func(got, want A) string) func(got, want []A) string {
	return func(got, want []A) string {
		var texts []string
		for i, a := range got {
			texts = append(texts, describe(a, want[i]))
		}
		return strings.Join(texts, ", ")
	}
}

// record compares the holds and the places of the resource.
func (t *twin) record(what string) {
	if t.unseen {
		return
	}
	f := driver.Filter{Resource: t.resource, Expired: true}
	ask(t, what, func(ctx context.Context, s driver.Store) ([]driver.Status, error) {
		all, err := collect.All(s.List(ctx, f))
		for i := range all {
			if s == t.model {
				all[i].Token = t.granted[all[i].HoldID]
			}
		}
		return all, err
	}, t.holds)
	if t.traits.Queue {
		ask(t, what, func(ctx context.Context, s driver.Store) ([]driver.Place, error) {
			return collect.All(driver.Waiters(ctx, s, f))
		}, t.places)
	}
}

// holds describes the holds of a record. want are those of the model.
func (t *twin) holds(hs, want []driver.Status) string {
	if len(hs) == 0 {
		return "that nobody holds it"
	}
	var texts []string
	for _, h := range hs {
		w := h
		if h.HoldID.IsZero() && h.LockID == "" && len(want) == 1 { // a server does not show whose it is
			w = want[0]
			h.HoldID, h.LockID, h.Token = w.HoldID, w.LockID, cmp.Or(h.Token, w.Token)
		} else if i := slices.IndexFunc(want, func(w driver.Status) bool { return w.HoldID == h.HoldID }); i >= 0 {
			w = want[i]
		}
		_, asked := t.granted[h.HoldID]
		texts = append(texts, fmt.Sprintf("the %v hold of %s (%s %s %s), %s, limit %d, takeover delay %v, renewed: %v, released: %v, known: %v, its token: %v",
			h.Mode, h.LockID, owner(h.Owner), h.Host, h.Comment, t.left(h.Left, w.Left), h.Limit, max(h.TakeoverDelay, 0), !h.Renewed.IsZero(), h.Released,
			asked, t.traits.Fencing == driver.FencingNone || h.Token == w.Token))
	}
	slices.Sort(texts)
	return "a record of " + strings.Join(texts, " and ")
}

// owner is what the request had. A server puts the name of its caller before it.
func owner(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func (t *twin) places(ps, want []driver.Place) string {
	if len(ps) == 0 {
		return "that nobody waits"
	}
	var texts []string
	for i, p := range ps {
		w := p
		if i < len(want) {
			w = want[i]
		}
		texts = append(texts, fmt.Sprintf("%s (%s %s) for an %v lock at %d, %s, fair: %v",
			cmp.Or(p.LockID, w.LockID), owner(p.Owner), p.Host, p.Mode, p.Position, t.left(p.Left, w.Left), p.Fair))
	}
	return "a queue of " + strings.Join(texts, " and ")
}

// leave releases what may be left, whatever the answers were.
func (t *twin) leave() (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), stepTime)
	defer cancel()
	defer t.model.Close()
	if len(t.tried) > 0 {
		answers, err := t.store.Release(ctx, t.tried)
		_, err = answered(answers, err, len(t.tried), func(r driver.ReleaseResult) error { return r.Err })
		return err
	}
	return nil
}
