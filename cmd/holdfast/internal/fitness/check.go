package fitness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/driver"
)

// stepTime is how long the store may take for one step.
const stepTime = 15 * time.Second

// check is one check of a store under way.
type check struct {
	Report
	resource string
	store    driver.Store // of mine
	// mine and other are two Clients with connections of their own.
	mine, other *holdfast.Client
	token       uint64        // of the first lock
	ttl         time.Duration // the shortest that makes sense; 0 if it is not known
}

// Check checks the store that open opens, each time on connections of its own. It takes a few
// seconds, longer with a slow store. It uses a resource of its own, and leaves only that idle
// record, which a Sweep removes.
func Check(ctx context.Context, open func(context.Context) (driver.Store, error)) Report {
	c := &check{resource: driver.InternalPrefix + "check/" + driver.NewHoldID().String()}
	c.run(ctx, open)
	return c.Report
}

// run takes the steps until one fails that the others depend on.
func (c *check) run(ctx context.Context, open func(context.Context) (driver.Store, error)) {
	began := time.Now()
	opts := &holdfast.Options{NoSweep: true, Trace: &holdfast.Trace{AttemptEnd: attempted}}
	for _, client := range []**holdfast.Client{&c.mine, &c.other} {
		store, err := within(ctx, func(ctx context.Context) (driver.Store, error) {
			store, err := open(ctx)
			if i, ok := store.(driver.Initializer); ok && err == nil {
				err = i.Init(ctx)
			}
			return store, err
		})
		if store != nil {
			defer store.Close() // nothing of it matters any more
		}
		if err != nil {
			c.failed("open", "it cannot be opened", fmt.Errorf("open: %w", err))
			return
		}
		*client = holdfast.New(store, opts)
		defer (*client).Close() // releases what a failed step left locked
		if client == &c.mine {
			c.store = store
			c.say("open", OK, "reachable, and its schema is in order (took %v)", round(time.Since(began)))
		}
	}
	c.Traits = c.mine.Traits()
	if !c.rights(ctx) {
		if c.Failed().Err == nil {
			c.statements(ctx) // it was answered, and wrongly
		}
		return
	}
	for _, step := range []func(context.Context) bool{c.again, c.roundTrips, c.wakeUps, c.statements, c.cleanUp} {
		if !step(ctx) {
			return
		}
	}
	c.Findings = append(c.Findings, promises(c.Traits)...)
}

// say adds a finding. It returns false for a failure.
//
//go:noinline
func (c *check) say(check string, result Verdict, format string, args ...any) bool {
	c.Findings = append(c.Findings, Finding{Check: check, Result: result, Text: fmt.Sprintf(format, args...)})
	return result != Fail
}

// failed adds the finding that an operation failed, and returns false.
//
//go:noinline
func (c *check) failed(check, what string, err error) bool {
	c.Findings = append(c.Findings, Finding{Check: check, Result: Fail, Text: what, Err: err})
	return false
}

// tried adds the finding of what happened: what is fine, or what is not and why. It reports
// which.
func (c *check) tried(check string, err error, not, fine string) bool {
	if err != nil {
		return c.failed(check, not, err)
	}
	return c.say(check, OK, "%s", fine)
}

// within calls f with the time-out of a step.
func within[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	return f(ctx)
}

func (c *check) acquire(ctx context.Context, client *holdfast.Client) (*holdfast.Hold, error) {
	return within(ctx, func(ctx context.Context) (*holdfast.Hold, error) {
		return client.TryLock(ctx, c.resource, nil)
	})
}

func (c *check) renew(ctx context.Context, hold *holdfast.Hold) error {
	_, err := within(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, hold.Renew(ctx, 0) })
	return err
}

func (c *check) list(ctx context.Context, client *holdfast.Client, f holdfast.Filter) ([]holdfast.Status, error) {
	return within(ctx, func(ctx context.Context) ([]holdfast.Status, error) {
		return collect.All(client.Admin().Holds(ctx, f))
	})
}

// find returns the hold as the store lists it.
func find(holds []holdfast.Status, h *holdfast.Hold) (s holdfast.Status, found bool) {
	i := slices.IndexFunc(holds, func(s holdfast.Status) bool { return s.HoldID == h.ID() })
	if i < 0 {
		return s, false
	}
	return holds[i], true
}

// rights tries every operation of holders, waiters and operators. It goes on after a
// failure that does not prevent the other operations.
func (c *check) rights(ctx context.Context) bool {
	hold, err := c.acquire(ctx, c.mine)
	if !c.tried("acquire", err, "no lock can be acquired", "a lock is granted: records may be made") {
		return false
	}
	c.token = hold.Token()
	if _, err = c.acquire(ctx, c.other); err == nil {
		return c.say("refuse", Fail, "two exclusive locks of one resource were granted at once. Do not use this store")
	} else if errors.Is(err, holdfast.ErrHeld) {
		err = nil
	}
	if !c.tried("refuse", err, "a request for a held lock gets no answer", "a second client is refused: other clients see the hold") {
		return false
	}
	fine := c.tried("renew", c.renew(ctx, hold), "a lock cannot be renewed", "the lock is renewed: records may be changed")
	holds, err := c.list(ctx, c.mine, holdfast.Filter{})
	if _, found := find(holds, hold); err == nil && !found {
		fine = c.say("list", Fail, "the lock is not listed: status is not reliable")
	} else {
		more := fmt.Sprintf("the lock is listed, and %d more: all records may be read", len(holds)-1)
		fine = c.tried("list", err, "holds cannot be listed", more) && fine
	}
	return c.tried("release", hold.Unlock(ctx), "a lock cannot be released", "the lock is released: records may be emptied") && fine
}

// again acquires the lock a second time, to check that it is free and that its token
// is higher. It also compares the clocks.
func (c *check) again(ctx context.Context) bool {
	before := time.Now()
	hold, err := c.acquire(ctx, c.other)
	after := time.Now()
	if err != nil {
		return c.failed("tokens", "the released lock cannot be acquired again", err)
	}
	fine := true
	switch token := hold.Token(); {
	case c.Traits.Fencing == driver.FencingNone:
		c.say("tokens", Warn, "this store has none")
	case token > c.token:
		c.say("tokens", OK, "they rise: %d, then %d", c.token, token)
	default:
		fine = c.say("tokens", Fail, "they do not rise: %d, then %d. Do not use them for fencing", c.token, token)
	}
	// A server may show the ID of the hold to nobody else.
	holds, err := c.list(ctx, c.other, holdfast.Filter{Resource: c.resource})
	if err != nil {
		return c.failed("list", "holds cannot be listed", err)
	}
	s, _ := find(holds, hold)
	c.clock(s.Created, before, after)
	if err := hold.Unlock(ctx); err != nil {
		return c.failed("release", "a lock cannot be released", err)
	}
	return fine
}

// cleanUp checks that nothing is left locked.
func (c *check) cleanUp(ctx context.Context) bool {
	holds, err := c.list(ctx, c.mine, holdfast.Filter{Resource: c.resource, Expired: true})
	switch {
	case err != nil:
		return c.failed("clean-up", "holds cannot be listed", err)
	case len(holds) > 0:
		return c.say("clean-up", Fail, "released holds are still listed: %d of %q", len(holds), c.resource)
	}
	return c.say("clean-up", OK, "nothing of this check is held; sweep removes its idle record in a day")
}
