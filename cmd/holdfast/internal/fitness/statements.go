package fitness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
)

// OpenStore opens the store itself, without a Client.
type OpenStore func(context.Context) (driver.Store, error)

const (
	// twinTime is when statements makes no more requests.
	twinTime = 2 * time.Minute
	// short is the TTL of a hold that is to expire, and expiry how long until it has on
	// every clock.
	short, expiry = 200 * time.Millisecond, 500 * time.Millisecond
)

// statements makes every kind of request on the resource of this check, and compares the
// answers, and the record as the store lists it, with those of the model. So it finds a
// server that reads a statement in another way than the servers for which it was written.
// Only sweeps are left out: they change the records of others.
func (c *check) statements(ctx context.Context) bool {
	store, err := within(ctx, func(ctx context.Context) (driver.Store, error) {
		store, err := c.store(ctx)
		if i, ok := store.(driver.Initializer); ok && err == nil {
			err = i.Init(ctx)
		}
		return store, err
	})
	if store != nil {
		defer store.Close() // nothing of it matters any more
	}
	if err != nil {
		return c.failed("statements", "the store cannot be opened", err)
	}
	t := newTwin(ctx, store, c.resource, max(c.TTL, holdfast.DefaultTTL))
	t.run()
	t.leave()
	switch {
	case t.err != nil:
		return c.failed("statements", t.doing+" gets no answer", t.err)
	case t.wrong != "":
		return c.say("statements", Fail, "%s. Do not use this store: its server understands a statement in another way", t.wrong)
	}
	if t.late {
		return c.say("statements", Note, "%d requests are answered, and change the record, as they should; the store is too slow to try all kinds", t.asked)
	}
	return c.say("statements", OK, "%d requests of all kinds are answered, and change the record, as they should", t.asked)
}

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

	began time.Time
	late  bool   // twinTime was over before all requests were made
	err   error  // the store gave no answer
	wrong string // its answer is not the model's
}

// tokens are those of a hold in both stores.
type tokens struct{ store, model uint64 }

func newTwin(ctx context.Context, store driver.Store, resource string, ttl time.Duration) *twin {
	return &twin{
		ctx: ctx, store: store, model: memlock.New(nil), traits: store.Traits(), resource: resource, ttl: ttl,
		granted: make(map[driver.HoldID]tokens), began: time.Now(),
	}
}

// run makes the requests.
func (t *twin) run() {
	t.exclusive()
	if t.traits.Shared {
		t.shared()
	}
	if t.traits.Queue {
		t.queue()
	}
	t.expiry()
}

func (t *twin) exclusive() {
	a, b := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive)
	a.TakeoverDelay = time.Second
	t.record("a look at a free resource")
	t.acquire("an exclusive acquire", a)
	t.acquire("an exclusive acquire of what is held", b)
	t.record("a look at the holder")
	t.acquire("an acquire that is repeated", a)
	t.renew("a renewal", t.ttl, &driver.Waits{Resource: t.resource + " next"}, a)
	t.record("a look after a renewal")
	t.renew("a renewal by somebody who holds nothing", t.ttl, nil, b)
	t.release("a release by somebody who holds nothing", 0, b)
	t.record("a look after what changes nothing")
	t.release("a release with a delay", t.ttl/4, a)
	t.record("a look after a release with a delay")
	t.renew("a renewal of what is released", t.ttl, nil, a)
	t.acquire("an exclusive acquire before the delay of a release is over", b)
	t.release("a release", 0, a)
	t.record("a look after a release")
	t.release("a release that is repeated", 0, a)

	again := t.hold("a", driver.Exclusive)
	t.acquire("an exclusive acquire after a release", again)
	const forever = "a renewal without an end"
	if t.renew(forever, driver.Forever, nil, again); t.doing == forever && errors.Is(t.err, httplock.ErrDenied) {
		t.err = nil // the server lets the caller hold locks for some time only
	} else {
		t.record("a look at a hold without an end")
	}
	t.release("a release of a hold without an end", 0, again)
	t.record("a look after that release")
}

func (t *twin) shared() {
	a, b, c := t.hold("a", driver.Shared), t.hold("b", driver.Shared), t.hold("c", driver.Shared)
	a.Limit, b.Limit, c.Limit = 2, 2, 2
	other := t.hold("c", driver.Shared)
	other.Limit = 3
	t.acquire("a shared acquire", a)
	t.acquire("a shared acquire beside another", b)
	t.record("a look at holders who share")
	t.acquire("a shared acquire above the limit", c)
	t.acquire("a shared acquire with another limit", other)
	t.acquire("an exclusive acquire of what is shared", t.hold("d", driver.Exclusive))
	t.renew("a renewal of two holds", t.ttl, nil, a, b)
	t.record("a look after a renewal of two holds")
	t.release("a release of one of two holds", 0, a)
	t.record("a look after a release of one of two holds")
	t.acquire("a shared acquire within the limit", c)
	t.release("a release of two holds", 0, b, c)
	t.record("a look after a release of two holds")
}

func (t *twin) queue() {
	a, b, c := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive), t.hold("c", driver.Exclusive)
	b.Place, b.Fair, c.Place, c.Fair = driver.NewPlaceID(), true, driver.NewPlaceID(), true
	b.Keep, c.Keep = driver.MaxKeep, driver.MaxKeep
	t.acquire("an exclusive acquire", a)
	t.acquire("an acquire that takes a place in the queue", b)
	t.acquire("an acquire that takes the second place", c)
	t.record("a look at the queue")
	t.renew("a renewal while others wait", t.ttl, nil, a)
	t.release("a release while others wait", 0, a)
	t.acquire("an acquire that would pass the queue", t.hold("d", driver.Exclusive))
	t.acquire("an acquire by the second of the queue", c)
	t.acquire("an acquire by the first of the queue", b)
	t.record("a look after the first of the queue has the lock")
	t.ask("a release that gives up a place", nil, []driver.ReleaseRequest{
		{HoldRef: driver.HoldRef{Resource: t.resource, LockID: c.LockID}, Place: c.Place},
	})
	t.record("a look after a place was given up")
	t.release("a release", 0, b)
}

func (t *twin) expiry() {
	a, b, c := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive), t.hold("c", driver.Exclusive)
	a.TTL, b.TTL, b.TakeoverDelay = short, short, t.ttl
	t.acquire("an exclusive acquire", a)
	t.wait()
	t.renew("a renewal of what has expired", t.ttl, nil, a)
	t.acquire("an acquire of what has expired", b)
	t.wait()
	t.renew("a renewal in the takeover delay", t.ttl, nil, b)
	t.acquire("an acquire in the takeover delay", c)
	t.release("a release in the takeover delay", 0, b)
	t.acquire("an acquire after that release", c)
	t.record("a look after that acquire")
	t.release("a release", 0, c)
	t.record("a look in the end")
}

// hold is a request of a lock ID.
func (t *twin) hold(lockID string, mode driver.Mode) driver.AcquireRequest {
	return driver.AcquireRequest{
		Resource: t.resource, LockID: "holdfast check " + lockID, HoldID: driver.NewHoldID(), Mode: mode, TTL: t.ttl / 2,
		Details: driver.Details{Owner: "$owner", Host: "host", Comment: "holdfast check"},
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

func (t *twin) renew(what string, ttl time.Duration, waits *driver.Waits, qs ...driver.AcquireRequest) {
	var rs []driver.RenewRequest
	for _, q := range qs {
		rs = append(rs, driver.RenewRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}, TTL: ttl, Waits: waits})
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

func (t *twin) same(got, want string) {
	if got != want {
		t.differs(got, want)
	}
}

func (t *twin) differs(got, want string) {
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

func (t *twin) grant(g driver.Grant, err error, want driver.Grant) string {
	if err == nil {
		return "granted, " + t.left(g.Left, want.Left)
	}
	var held *driver.HeldError
	if !errors.As(err, &held) {
		return "refused, without saying by whom"
	}
	text := "refused"
	if held.BySelf {
		text += ", by itself"
	}
	if held.LimitDiffers {
		text += ", because of the limit of others"
	}
	if t.traits.Queue {
		text += fmt.Sprintf(", position %d among %d waiters", held.Position, held.Waiters)
	}
	for _, p := range held.Ahead {
		text += ", " + p.LockID + " is ahead"
	}
	return text
}

func (t *twin) renewed(r, want driver.RenewResult) string {
	text := "lost"
	if r.Err == nil {
		text = "renewed, " + t.left(r.Left, want.Left)
		if t.traits.Queue {
			text += fmt.Sprintf(", %d wait", r.Waiters)
		}
	}
	return text
}

func ended(r driver.ReleaseResult) string {
	if r.Found {
		return "found and released"
	}
	return "not there"
}

// holds describes the holds of a record. want are those of the model.
func (t *twin) holds(hs, want []driver.Status, model bool) string {
	if len(hs) == 0 {
		return "that nobody holds it"
	}
	texts := make([]string, len(hs))
	for i, h := range hs {
		texts[i] = t.status(h, want, model)
	}
	slices.Sort(texts)
	return "a record of " + strings.Join(texts, " and ")
}

func (t *twin) status(h driver.Status, want []driver.Status, model bool) string {
	w := h
	if i := slices.IndexFunc(want, func(w driver.Status) bool { return w.HoldID == h.HoldID }); i >= 0 {
		w = want[i]
	}
	text := fmt.Sprintf("the %v hold of %s (%s %s %s), %s", h.Mode, h.LockID, owner(h.Owner), h.Host, h.Comment, t.left(h.Left, w.Left))
	if h.HoldID != w.HoldID {
		text += ", with a hold ID that nobody has asked for"
	}
	token := t.granted[h.HoldID].store
	if model {
		token = t.granted[h.HoldID].model
	}
	if t.traits.Fencing != driver.FencingNone && h.Token != token {
		text += ", with a token that was not granted"
	}
	if h.Mode == driver.Shared {
		text += fmt.Sprintf(", limit %d", h.Limit)
	}
	if h.TakeoverDelay > 0 {
		text += fmt.Sprintf(", takeover delay %v", h.TakeoverDelay)
	}
	if !h.Renewed.IsZero() {
		text += ", renewed"
	}
	if h.Released {
		text += ", released"
	}
	if h.Waits != nil && t.traits.Queue {
		text += ", waits for " + h.Waits.Resource
	}
	return text
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
		// A server shows callers that have rights another place ID.
		text := fmt.Sprintf("%s (%s %s) for an %v lock at %d, %s", p.LockID, owner(p.Owner), p.Host, p.Mode, p.Position, t.left(p.Left, w.Left))
		if p.Fair {
			text += ", fair"
		}
		texts = append(texts, text)
	}
	return "a queue of " + strings.Join(texts, " and ")
}
