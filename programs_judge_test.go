package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// judge knows all events of a program and reports violations. Like Hold.Left it judges holds
// by what their holder would learn now.
type judge struct {
	began time.Time
	calm  atomic.Bool // no more faults, and earlier ones have no effect any more

	mu         sync.Mutex
	journal    []string
	violations []string
	failedAt   int // the length of the journal at the first failure
	calls      map[string]*call
	holdings   map[driver.HoldID]*holding
	believed   map[string][]*holding // by resource
	grants     map[string][]grant
	freeSince  map[string]time.Time // when the last hold of the resource was released
	jumped     time.Time            // when a clock last jumped: a machine was suspended
	granted    int
}

// call is one Lock, from its beginning until it returns.
type call struct {
	name     string // in LockOptions.Comment, so that each request names its call
	node     *node
	resource string
	mode     holdfast.Mode
	opts     *holdfast.LockOptions
	waits    bool // it is not a TryLock
	ctx      context.Context
	began    time.Time
	came     time.Time // when its Client came: the goroutines of a Client share one place
	placed   time.Time // when the store first recorded its fair place
	granted  bool
	passed   string // how another call overtook it, which is wrong if it still waits later
	passedAt time.Time
}

// grant is a decision of the store.
type grant struct {
	id    driver.HoldID
	mode  holdfast.Mode
	limit int
	token uint64
}

// excludes reports whether two holds must not live at the same time, whatever the other holds
// are.
func (g grant) excludes(other grant) bool {
	return g.mode == holdfast.Exclusive || other.mode == holdfast.Exclusive || g.limit != other.limit
}

// holding is everything known about a hold ID.
type holding struct {
	node     *node
	grant                      // its token is the token of the Hold
	hold     *holdfast.Hold    // nil: no caller has it
	contexts []context.Context // of the hold, or bound to it
	since    time.Time
	kept     bool            // renewed by the Client
	released map[uint64]bool // by its Client: the tokens of these requests
	asked    time.Time       // when the first request was sent
	attempts int             // how many requests were sent
	found    time.Time       // when a release first found it
	unknown  bool            // a request had no answer
	arrived  time.Time       // when the store granted the last request
	ttl      time.Duration   // of the last grant or renewal
	foreign  bool            // another Client was asked to release it
	forced   bool            // any Client was asked to force it
}

func (j *judge) at() time.Duration { return time.Since(j.began) }

// note adds a line to the journal. j.mu is held.
func (j *judge) note(format string, args ...any) {
	j.journal = append(j.journal, fmt.Sprintf("%9.3fs ", j.at().Seconds())+fmt.Sprintf(format, args...))
}

func (j *judge) say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(format, args...)
}

// accuse records a violation. Its kind is the text before the first colon. j.mu is held.
func (j *judge) accuse(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.note("*** %s", text)
	if len(j.violations) == 0 {
		j.failedAt = len(j.journal)
	}
	j.violations = append(j.violations, text)
}

func (j *judge) wrong(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.accuse(format, args...)
}

func (j *judge) holding(id driver.HoldID) *holding {
	h := j.holdings[id]
	if h == nil {
		h = &holding{released: make(map[uint64]bool)}
		j.holdings[id] = h
	}
	return h
}

// begin records a call of Lock.
func (j *judge) begin(c *call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.began = time.Now()
	c.came = c.began
	for _, other := range j.calls {
		if other.waits && other.node == c.node && other.resource == c.resource && other.came.Before(c.came) {
			c.came = other.came
		}
	}
	j.calls[c.name] = c
	j.note("%s: lock %q in %s: %v, waits %v, %v, id %q, fair %v, limit %d", c.name, c.resource, c.node.name, c.mode,
		c.waits, c.opts.TTL, c.opts.LockID, c.opts.Fair, c.opts.Limit)
}

// end records its return.
func (j *judge) end(c *call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.calls, c.name)
	if c.passed != "" && time.Now().After(c.passedAt) {
		j.accuse("%s, which waited until now", c.passed)
	}
}

// before reports whether c has been waiting longer than other, for a hold that excludes
// other's, and waits only for calls before it. j.mu is held.
func (c *call) before(other *call) bool {
	return c.waits && !c.granted && c.passed == "" && c.resource == other.resource && c.began.Before(other.began) &&
		(c.mode == holdfast.Exclusive || other.mode == holdfast.Exclusive) &&
		c.opts.LockID == "" && c.ctx.Err() == nil
}

// asked is called with each acquire request that the Client sends.
func (j *judge) asked(n *node, q driver.AcquireRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.holding(q.HoldID)
	if h.attempts++; h.node == nil {
		h.node, h.asked = n, time.Now()
	}
	c := j.calls[q.Details.Comment]
	if c == nil || !c.waits || c.opts.LockID != "" {
		return
	}
	for _, first := range j.calls {
		if first.node == n && first.before(c) {
			first.passed = fmt.Sprintf("out of turn: %s asked for %q before %s, which came earlier to the same Client", c.name, c.resource, first.name)
			first.passedAt = time.Now()
		}
	}
}

// decided is called with each answer of the store to an acquire. j.mu is held.
func (j *judge) decided(n *node, q driver.AcquireRequest, g driver.Grant, err error) {
	c := j.calls[q.Details.Comment]
	if err != nil {
		var held *driver.HeldError
		if c != nil && errors.As(err, &held) && q.Fair && held.Position >= 0 && c.placed.IsZero() {
			c.placed = time.Now()
		}
		j.note("   store: %s %.6s of %s: %v", n.name, q.HoldID, q.Details.Comment, err)
		return
	}
	j.note("   store: %s %.6s of %s: granted %q with token %d", n.name, q.HoldID, q.Details.Comment, q.Resource, g.Token)
	now := grant{q.HoldID, q.Mode, q.Limit, g.Token}
	for _, old := range j.grants[q.Resource] {
		if old.id == now.id && old.token == now.token {
			return // a repeat
		}
	}
	own := j.holding(q.HoldID)
	own.arrived, own.ttl = time.Now(), q.TTL
	beside := j.shared(q.Resource, now)
	j.grants[q.Resource] = append(j.grants[q.Resource], now)
	j.granted++
	if c == nil {
		// It arrived after its caller had given up and the clean-up was over: it may block
		// others for as long as it lives.
		if until := time.Now().Add(q.TTL + q.TakeoverDelay); until.After(j.freeSince[q.Resource]) {
			j.freeSince[q.Resource] = until
		}
		return
	}
	c.granted = true
	oldest := c.began
	for _, first := range j.calls {
		if first.resource == q.Resource && first.began.Before(oldest) {
			oldest = first.began
		}
		if first.node != n && !first.placed.IsZero() && first.placed.Before(c.came) && first.before(c) &&
			!first.node.disturbed(first.began) && !j.jumped.After(first.began) && !first.node.closing.Load() {
			first.passed = fmt.Sprintf("unfair: %q was granted to %s, while %s had a fair place since before", q.Resource, c.name, first.name)
			first.passedAt = time.Now()
		}
	}
	if free := j.freeSince[q.Resource]; free.After(oldest) {
		oldest = free
	}
	if idle := time.Since(oldest); j.calm.Load() && beside == 0 && idle > mostIdle {
		j.accuse("idle: %q was free for %v although somebody waited", q.Resource, idle)
	}
}

// lag is how long a context may outlive its hold after its machine was suspended: timers do
// not notice, so the Client checks once a second.
const lag = 1100 * time.Millisecond

// mostIdle is how long a resource may be free while a caller waits, without any faults.
const mostIdle = time.Second

// shared fails if a live hold excludes a grant, and returns the number of holds beside it.
// j.mu is held.
func (j *judge) shared(resource string, g grant) int {
	n := 0
	for _, h := range j.believed[resource] {
		if h.id == g.id || h.foreign {
			continue
		}
		if h.hold.Left() == 0 {
			if h.excludes(g) && h.contexts[0].Err() == nil && time.Since(j.jumped) > lag {
				j.accuse("overlap: %q granted (token %d) while the context of hold %.6s is alive", resource, g.token, h.id)
			}
			continue
		}
		n++
		if h.excludes(g) {
			j.accuse("overlap: %q granted (%v, limit %d, token %d) while hold %.6s (%v, limit %d, token %d) of %s has %v left",
				resource, g.mode, g.limit, g.token, h.id, h.mode, h.limit, h.token, h.node.name, h.hold.Left())
		}
	}
	if g.limit > 0 && n >= g.limit {
		j.accuse("overlap: %q has %d shared holds of %d", resource, n+1, g.limit)
	}
	return n
}

// believe records that a caller has a hold from now on.
func (j *judge) believe(c *call, h *holdfast.Hold) *holding {
	ctx := h.Context()
	j.mu.Lock()
	defer j.mu.Unlock()
	own := j.holding(h.ID())
	own.grant = grant{h.ID(), h.Mode(), c.opts.Limit, h.Token()}
	own.hold, own.since, own.kept, own.contexts = h, time.Now(), !c.opts.NoKeepAlive, []context.Context{ctx}
	left := h.Left()
	j.note("%s: has hold %.6s with token %d, %v left", c.name, h.ID(), h.Token(), left)
	j.believed[h.Resource()] = append(j.believed[h.Resource()], own)
	if left == 0 || own.foreign {
		return own
	}
	if own.released[0] || own.released[h.Token()] {
		j.accuse("released: %s was given hold %.6s, which its Client has released", c.name, h.ID())
	}
	for _, later := range j.grants[h.Resource()] {
		if later.token > own.token && later.excludes(own.grant) && h.Left() > 0 {
			j.accuse("overlap: %s was given token %d of %q, but token %d was granted before", c.name, own.token, h.Resource(), later.token)
		}
	}
	for _, before := range j.believed[h.Resource()] {
		if before.token > own.token && before.excludes(own.grant) && h.Left() > 0 {
			j.accuse("token: %s was given token %d of %q after token %d", c.name, own.token, h.Resource(), before.token)
		}
	}
	j.shared(h.Resource(), own.grant)
	return own
}

// bound records a context that must have ended before its Client releases the hold.
func (j *judge) bound(h *holding, ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.hold.Left() > 0 {
		h.contexts = append(h.contexts, ctx)
	}
}

// releases is called with the release requests that a Client sends.
func (j *judge) releases(n *node, qs []driver.ReleaseRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, q := range qs {
		j.note("   %s releases %.6s, token %d, place %.6s, after %v %s", n.name, q.HoldID, q.Token, q.Place, q.After, q.Reason)
		if q.HoldID.IsZero() {
			continue
		}
		h := j.holding(q.HoldID)
		h.forced = h.forced || q.Reason != ""
		if h.node != n {
			h.foreign = true
			continue
		}
		h.released[q.Token] = true
		if h.hold == nil || h.foreign || q.Token != 0 && q.Token != h.token { // or it is for an earlier grant
			continue
		}
		if left := h.hold.Left(); left > 0 {
			j.accuse("released: %s releases hold %.6s, which has %v left", n.name, h.id, left)
		}
		for i, ctx := range h.contexts {
			// Contexts that are bound to a lost hold end a moment later, in goroutines.
			if ctx.Err() == nil && (i == 0 || !errors.Is(context.Cause(h.contexts[0]), holdfast.ErrLost)) {
				j.accuse("released: %s releases hold %.6s, whose context %d is alive", n.name, h.id, i)
			}
		}
	}
}

// mayStay reports whether the hold with that token may stay in the store: its caller had it,
// and its release may have had no answer; or its last grant came so late that the Client may
// have stopped cleaning up, or came just now. j.mu is held.
func (h *holding) mayStay(token uint64) bool {
	return !h.unknown || h.hold != nil && h.token == token || h.arrived.Sub(h.asked) >= h.ttl || time.Since(h.arrived) <= cleanedWithin ||
		h.attempts == 1 && !h.found.IsZero() && h.arrived.Sub(h.found) > copiesArrive
}

// over judges why a hold ended, after its last use.
func (j *judge) over(name string, h *holding) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ctx := h.contexts[0]
	if h.hold.Left() > 0 || ctx.Err() == nil {
		j.accuse("alive: %s has released hold %.6s, but it has %v left", name, h.id, h.hold.Left())
		return
	}
	why := context.Cause(ctx)
	var lost *holdfast.LostError
	switch {
	case errors.Is(why, holdfast.ErrReleased):
	case errors.Is(why, holdfast.ErrClosed):
		if !h.node.closing.Load() {
			j.accuse("cause: hold %.6s ended with %v", h.id, why)
		}
	case !errors.As(why, &lost):
		j.accuse("cause: hold %.6s ended with %v", h.id, why)
	case errors.Is(why, holdfast.ErrForced):
		if !h.forced && !h.foreign && h.node.forcing.Load() == 0 { // its own Client ends the hold before it sends the release
			j.accuse("loss: hold %.6s ended with %v, but nobody released it", h.id, why)
		}
	case h.kept && !h.node.disturbed(h.since) && !j.jumped.After(h.since.Add(-lag)): // until then its timer may be late
		j.accuse("loss: hold %.6s ended with %v, but nothing was wrong", h.id, why)
	}
}

// outcome judges the error of an operation. ctx limits the operation, or is nil; may are
// errors that are allowed in any case.
func (j *judge) outcome(name string, n *node, began time.Time, ctx context.Context, err error, may ...error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note("%s: %v", name, err)
	for _, never := range []error{
		holdfast.ErrInvalid, holdfast.ErrUnsupported, holdfast.ErrUnusable, holdfast.ErrDamaged, holdfast.ErrStale,
	} {
		if errors.Is(err, never) {
			j.accuse("error: %s: %v", name, err)
			return
		}
	}
	var held *holdfast.HeldError
	for _, right := range may {
		if errors.Is(err, right) {
			return
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, holdfast.ErrClosed):
		if !n.closing.Load() {
			j.accuse("error: %s: %v, but nobody closed it", name, err)
		}
	case ctx != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case errors.As(err, &held), errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrReleased):
		j.accuse("error: %s: %v", name, err)
	case !n.disturbed(began) && !j.jumped.After(began.Add(-memory)):
		j.accuse("error: %s: %v, but nothing was wrong", name, err)
	case errors.Is(err, holdfast.ErrTTLTooShort), errors.Is(err, drivertest.ErrFault),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	case n.dropped.Load(): // a part of a batch without an answer has no error of its own
	default:
		j.accuse("error: %s: unknown %v", name, err)
	}
}

// within judges how long an Unlock or a Close took: at most 5 s. If a store ignores the ctx
// of a call, an Unlock takes that much longer and starts again once, because the process may
// have been stopped.
func (j *judge) within(name string, began time.Time, stalled bool) {
	limit := 5 * time.Second
	if stalled {
		limit = 2 * (limit + 2*mostStall)
	}
	if took := time.Since(began); took > limit {
		j.wrong("slow: %s took %v", name, took)
	}
}
