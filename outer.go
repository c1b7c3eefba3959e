package holdfast

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A program may work under holds that another program keeps alive: it was started by the
// holder, who waits for it. It notes on these holds what it waits for, and the holder
// keeps the note in its renewals. So deadlocks among programs are seen as those within
// one.

// Under returns a copy of ctx that is bound to holds of another program, in the same
// store: the caller works for that program, which waits for it. What a Lock with such a
// ctx waits for is noted on these holds, so that a deadlock is found (ErrDeadlock). A
// shared lock of the same resource passes those that wait for it.
//
// The other program must acquire these locks with LockOptions.ForOthers. It finds the refs
// of its holds by Client.Holds: Status.Ref.
func Under(ctx context.Context, holds ...driver.HoldRef) context.Context {
	if len(holds) == 0 {
		return ctx
	}
	return context.WithValue(ctx, bindingKey{}, &binding{outer: bindingOf(ctx), others: slices.Clone(holds)})
}

// outerHolds returns the holds of other programs that ctx is bound to.
func outerHolds(ctx context.Context) (refs []driver.HoldRef) {
	for u := bindingOf(ctx); u != nil; u = u.outer {
		refs = append(refs, u.others...)
	}
	return refs
}

// noteTTL is the TTL of the renewals that note something on a hold of another program:
// so short that they never make it last longer.
const noteTTL = time.Millisecond

// noteOuter makes the holds of other programs that the acquirer's caller works under say
// that it waits, or no longer say so. If that fails, the next look repeats it. There is none
// when the wait is over, and the next waiter of this Client may keep the place alive: so that
// is tried a few times.
func (c *Client) noteOuter(ctx context.Context, a *acquirer, waits bool) {
	if len(a.outer) == 0 {
		return
	}
	tries := 3
	var note *driver.Waits
	if waits {
		tries = 1
		c.mu.Lock()
		note = c.waitsOf(a)
		c.mu.Unlock()
	}
	qs := make([]driver.RenewRequest, len(a.outer))
	for i, ref := range a.outer {
		qs[i] = driver.RenewRequest{HoldRef: ref, TTL: noteTTL, Waits: note}
	}
	for range tries {
		call := &attempt{parent: ctx, client: c, detached: !waits, timeout: lastChance}
		_, err := c.store.Renew(call, qs)
		if call.end(err) == nil {
			return
		}
	}
}

// keepNotes adds to the renewals of holds that other programs work under what these have
// noted, while they have their places in the queue: they may have been killed. In all it
// takes no longer than a quarter of the time that the renewals have. After a failure a
// hold needs that time, and its note is left out.
func (c *Client) keepNotes(ctx context.Context, batch []*Hold, requests []driver.RenewRequest, timeout time.Duration) {
	if !c.store.Traits().Queue || !slices.ContainsFunc(batch, func(h *Hold) bool { return h.forOthers }) {
		return
	}
	call := &attempt{parent: ctx, client: c, timeout: timeout / 4}
	for i, h := range batch {
		if h.forOthers && requests[i].Waits == nil && !c.hasFailed(h) && call.Err() == nil {
			requests[i].Waits = c.noteOn(call, h.ref)
		}
	}
	_ = call.end(nil)
}

func (c *Client) hasFailed(h *Hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.failure != nil
}

// noteOn returns what is noted on the hold, or nil if that is of the past or unknown.
func (c *Client) noteOn(ctx context.Context, ref driver.HoldRef) *driver.Waits {
	// A server may show the note as it is only to who names the lock ID.
	noted := c.listedNote(ctx, ref, Filter{Resource: ref.Resource, LockID: ref.LockID})
	if noted == nil || noted.Place.IsZero() {
		return nil
	}
	var places []driver.PlaceID
	for p, err := range driver.Waiters(ctx, c.store, Filter{Resource: noted.Resource}) {
		if err != nil {
			return nil
		}
		places = append(places, p.ID)
	}
	if !slices.Contains(places, noted.Place) {
		if len(places) == 0 {
			return nil
		}
		// The places may be masked, and then the note is so to everybody.
		masked := c.listedNote(ctx, ref, Filter{Resource: ref.Resource})
		if masked == nil || !masked.Since.Equal(noted.Since) || !slices.Contains(places, masked.Place) {
			return nil
		}
	}
	return &driver.Waits{Resource: noted.Resource, Mode: noted.Mode, Limit: noted.Limit, Place: noted.Place}
}

// listedNote returns the note of the hold in a list, or nil if there is none.
func (c *Client) listedNote(ctx context.Context, ref driver.HoldRef, f Filter) (noted *driver.Waits) {
	for s, err := range c.store.List(ctx, f) {
		if err != nil {
			return nil
		}
		if s.HoldID == ref.HoldID {
			noted = s.Waits
		}
	}
	return noted
}
