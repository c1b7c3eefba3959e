package fitness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
)

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
	t := newTwin(ctx, c.store, c.resource, max(c.ttl, holdfast.DefaultTTL))
	t.run()
	left := t.leave()
	went := c.compared(t)
	if left == nil {
		return went
	}
	c.Left = c.resource
	return c.failed("clean-up", fmt.Sprintf("%q may be held without an end now: holdfast unlock --force releases it", c.resource), fmt.Errorf("statements: %w", left))
}

// compared adds the finding of what the twin saw.
func (c *check) compared(t *twin) bool {
	switch {
	case t.err != nil:
		return c.failed("statements", t.doing+" gets no answer", fmt.Errorf("statements: %w", t.err))
	case t.wrong != "":
		return c.say("statements", Fail, "%s. Do not use this store: its server understands a statement in another way", t.wrong)
	}
	if t.late {
		return c.say("statements", Note, "%d requests are answered, and change the record, as they should; the store is too slow to try all kinds", t.asked)
	}
	return c.say("statements", OK, "%d requests of all kinds are answered, and change the record, as they should", t.asked)
}

// run makes the requests.
func (t *twin) run() {
	t.exclusive()
	if t.traits.Shared {
		t.shared()
	}
	t.expiry()
	if t.traits.Queue { // last, for what is late in it
		t.queue()
	}
}

func (t *twin) exclusive() {
	a, b := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive)
	a.TakeoverDelay = time.Second
	t.record("a look at a free resource")
	t.acquire("an exclusive acquire", a)
	t.acquire("an exclusive acquire of what is held", b)
	t.acquire("an acquire that is repeated", a)
	t.renew("a renewal", t.ttl, a)
	t.renew("a renewal by somebody who holds nothing", t.ttl, b)
	t.release("a release by somebody who holds nothing", 0, b)
	t.release("a release with a delay", t.ttl/4, a)
	t.renew("a renewal of what is released", t.ttl, a)
	t.acquire("an exclusive acquire before the delay of a release is over", b)
	t.release("a release", 0, a)
	t.release("a release that is repeated", 0, a)

	again := t.hold("a", driver.Exclusive)
	t.acquire("an exclusive acquire after a release", again)
	const forever = "a renewal without an end"
	if t.renew(forever, driver.Forever, again); t.doing == forever && errors.Is(t.err, httplock.ErrDenied) {
		t.err = nil // the server lets the caller hold locks for some time only
	}
	t.release("a release of a hold without an end", 0, again)
}

func (t *twin) shared() {
	a, b, c := t.hold("a", driver.Shared), t.hold("b", driver.Shared), t.hold("c", driver.Shared)
	a.Limit, b.Limit, c.Limit = 2, 2, 2
	other := t.hold("c", driver.Shared)
	other.Limit = 3
	t.acquire("a shared acquire", a)
	t.acquire("a shared acquire beside another", b)
	t.acquire("a shared acquire above the limit", c)
	t.acquire("a shared acquire with another limit", other)
	t.acquire("an exclusive acquire of what is shared", t.hold("d", driver.Exclusive))
	t.renew("a renewal of two holds", t.ttl, a, b)
	t.release("a release of one of two holds", 0, a)
	t.acquire("a shared acquire within the limit", c)
	t.release("a release of two holds", 0, b, c)
}

func (t *twin) queue() {
	a, b, c := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive), t.hold("c", driver.Exclusive)
	b.Place, b.Fair, c.Place, c.Fair = driver.NewPlaceID(), true, driver.NewPlaceID(), true
	t.acquire("an exclusive acquire", a)
	t.placed = time.Now()
	t.acquire("an acquire that takes a place in the queue", b)
	t.acquire("an acquire that takes the second place", c)
	t.record("a look at the queue")
	t.renew("a renewal while others wait", t.ttl, a)
	t.release("a release while others wait", 0, a)
	t.acquire("an acquire that would pass the queue", t.hold("d", driver.Exclusive))
	t.acquire("an acquire by the second of the queue", c)
	t.acquire("an acquire by the first of the queue", b)
	t.release("a release that gives up a place", givesUp, c)
	t.release("a release", 0, b)
}

func (t *twin) expiry() {
	a, b, c := t.hold("a", driver.Exclusive), t.hold("b", driver.Exclusive), t.hold("c", driver.Exclusive)
	a.TTL, b.TTL, b.TakeoverDelay = short, short, t.ttl
	t.unseen = true
	t.acquire("an exclusive acquire", a)
	t.wait()
	t.renew("a renewal of what has expired", t.ttl, a)
	t.acquire("an acquire of what has expired", b)
	t.wait()
	t.renew("a renewal in the takeover delay", t.ttl, b)
	t.acquire("an acquire in the takeover delay", c)
	t.release("a release in the takeover delay", 0, b)
	t.unseen = false
	t.acquire("an acquire after that release", c)
	t.release("a release", 0, c)
}

// hold is a request of a lock ID.
func (t *twin) hold(lockID string, mode driver.Mode) driver.AcquireRequest {
	return driver.AcquireRequest{
		Resource: t.resource, LockID: "holdfast check " + lockID, HoldID: driver.NewHoldID(), Mode: mode, TTL: t.ttl / 2,
		Details: driver.Details{Owner: "$owner", Host: "host", Comment: "holdfast check"},
	}
}
