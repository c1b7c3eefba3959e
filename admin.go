package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Admin lists, renews and releases the holds of all clients of a store, lists their waiters
// and sweeps. It is for operators and their tools, which usually need package driver too: see
// the package documentation. All methods may be called concurrently.
type Admin struct {
	// Reason is why ForceRelease releases holds, for the audit and the history of a server: up to
	// 1024 bytes of UTF-8 without NUL. Set it before ForceRelease is called. Default: who does it.
	Reason string

	client *Client
}

// Admin returns the operations on everything in the store. Those that ask the store end with
// ErrClosed when the Client is closed.
func (c *Client) Admin() *Admin { return &Admin{client: c} }

// Holds returns an iterator over the holds in the store that match the filter: holds that
// block a resource and, with Filter.Expired, also holds that no longer do. It leaves out
// driver.SweepResource unless the filter names it.
//
// The result is not a snapshot: it has each hold that exists throughout, and may have
// others. The iteration ends after the first error. The error is context.DeadlineExceeded if
// the store returns no further hold for 5 minutes. Close waits for the loop to end, so do not
// call Close within the loop.
func (a *Admin) Holds(ctx context.Context, f Filter) iter.Seq2[Status, error] {
	c := a.client
	return func(yield func(Status, error) bool) {
		for s, err := range c.all(ctx, f) {
			if err == nil && s.Resource == driver.SweepResource && f.Resource != driver.SweepResource {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// Waiters returns an iterator over the places in the store's queues whose resource, lock ID,
// owner and time match the filter. The places of one resource come in their order. Leave
// the filter's LeftBelow and LeftAtLeast zero: they compare how long a place is kept.
//
// A waiter has a place once it has waited for a second, or from the start with
// LockOptions.Fair. Only the first of the waiting goroutines of a Client has one. The place of
// a killed waiter stays for up to a minute, or for up to 10 s if it was fair. The error is
// ErrUnsupported if the store keeps no queue (Traits.Queue). Otherwise Waiters is like Holds.
func (a *Admin) Waiters(ctx context.Context, f Filter) iter.Seq2[Place, error] {
	c := a.client
	return scan(ctx, c, "list waiters", f, func(ctx context.Context, f Filter) iter.Seq2[Place, error] {
		return driver.Waiters(ctx, c.store, f)
	})
}

// all is like Holds but includes SweepResource.
func (c *Client) all(ctx context.Context, f Filter) iter.Seq2[Status, error] {
	return scan(ctx, c, "list holds", f, c.store.List)
}

// scan limits the time of a list of the store, and ends it with the Client. If it were
// inlined, every caller of Holds and Waiters would have a copy of the returned function.
//
//go:noinline
func scan[T any](ctx context.Context, c *Client, what string, f Filter, list func(context.Context, Filter) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := c.start(ctx); err != nil {
			yield(none, wrap(what, f.Resource, err))
			return
		}
		defer c.scope.Leave()
		ctx, cancel := context.WithCancel(storecall.Uncaused{Context: ctx})
		defer cancel()
		defer context.AfterFunc(c.scope.Life, cancel)()
		var silent atomic.Bool
		silence := time.AfterFunc(scanTimeout, func() {
			silent.Store(true)
			cancel()
		})
		defer silence.Stop()
		for s, err := range list(ctx, f) {
			silence.Stop() // the caller may take its time
			if err != nil {
				if silent.Load() && !answered(err) {
					err = fmt.Errorf("no answer within %v: %w", scanTimeout, context.DeadlineExceeded)
				}
				yield(none, wrap(what, f.Resource, c.closedOr(err)))
				return
			}
			if !yield(s, nil) {
				return
			}
			silence.Reset(scanTimeout)
		}
	}
}

// scanTimeout is how long the store may take to find the next hold of a list, and how long
// a sweep may take. A scan of millions of records takes less.
const scanTimeout = 5 * time.Minute

// list collects holds, the newest first.
func (c *Client) list(ctx context.Context, f Filter) ([]Status, error) {
	var ss []Status
	for s, err := range c.all(ctx, f) {
		if err != nil {
			return nil, err
		}
		ss = append(ss, s)
	}
	// slices.SortFunc would be compiled once more, for this large struct alone.
	sort.Slice(ss, func(i, j int) bool { return ss[i].Created.After(ss[j].Created) })
	return ss, nil
}

// ReleaseID releases all holds of the lock ID, the newest first, and returns them as they
// were before. The holds of this Client end with ErrReleased. A holder in another program
// learns of the release only at its next renewal.
//
// ReleaseID is not atomic: it lists the holds and then releases them, so a hold that is
// granted in between stays. If it returns an error, some holds may not be released. The
// result leaves out holds that the store refused to release and holds that another program
// has retaken with the same lock ID.
func (a *Admin) ReleaseID(ctx context.Context, lockID string) ([]Status, error) {
	c := a.client
	if err := cmp.Or(driver.ValidLockID(lockID), c.invalid); err != nil {
		return nil, wrap("release", lockID, err)
	}
	ss, err := c.list(ctx, Filter{LockID: lockID})
	if err != nil {
		return nil, err
	}
	return c.releaseListed(ctx, ss, "")
}

// ForceRelease releases a hold of any client by its resource and hold ID, or all holds of
// the resource if holdID is zero, and returns them as they were before. It is for operators:
// the holder learns of it only at its next renewal, when the resource may already be granted
// to another client.
//
// A hold of this Client ends at once, even if the store refuses to release it, as a server
// does if the caller has no right to force. The result leaves out holds that the store
// refused to release.
func (a *Admin) ForceRelease(ctx context.Context, resource string, holdID HoldID) ([]Status, error) {
	c := a.client
	reason := cmp.Or(a.Reason, c.forceReason())
	if err := cmp.Or(driver.ValidResource(resource), driver.ValidReason(reason), c.invalid); err != nil {
		return nil, wrap("force release of", resource, err)
	}
	ss, err := c.list(ctx, Filter{Resource: resource})
	if err != nil {
		return nil, err
	}
	if !holdID.IsZero() {
		ss = slices.DeleteFunc(ss, func(s Status) bool { return s.HoldID != holdID })
	}
	return c.releaseListed(ctx, ss, reason)
}

// forceReason is the default of Admin.Reason.
func (c *Client) forceReason() string {
	short := func(s string) string { return driver.CutPlaceName(name(s)) }
	return fmt.Sprintf("forced by %s on %s", short(c.opts.Owner), short(c.opts.Host))
}

// releaseListed releases the holds, by force if there is a reason. It first ends the holds of
// this Client: the context of a holder in the same process ends before the store releases
// the hold. Revoke also remembers holds whose grants are still on their way to this Client.
func (c *Client) releaseListed(ctx context.Context, ss []Status, reason string) ([]Status, error) {
	if len(ss) == 0 {
		return nil, nil
	}
	if err := c.start(ctx); err != nil {
		return ss, wrap("release", ss[0].Resource, err)
	}
	defer c.scope.Leave()
	refs := make([]driver.HoldRef, len(ss))
	qs := make([]driver.ReleaseRequest, len(ss))
	for i, s := range ss {
		refs[i] = s.Ref()
		qs[i] = driver.ReleaseRequest{HoldRef: refs[i], Reason: reason}
	}
	own := c.leases.Revoke(refs, reason != "")
	defer c.leases.Forget(refs)
	began := c.clock()
	var gone []Status
	var errs []error
	for i, err := range c.cleaner.ReleaseAll(ctx, qs, cleanup.Patience) {
		if own[i] != nil {
			h := holdOf(own[i])
			c.released(h, began, err)
			c.cleanStrays(h, 0)
			if permanent(err) { // such as a missing right to force, which an own hold does not need
				c.cleanLost(h, own[i].End(ErrReleased, 0))
			}
		}
		c.lines.Wake(ss[i].Resource)
		if err != nil {
			errs = append(errs, wrap("release", ss[i].Resource, err))
		}
		if !errors.Is(err, cleanup.ErrRetaken) && !permanent(err) {
			gone = append(gone, ss[i])
		}
	}
	return gone, errors.Join(errs...)
}

// RenewID extends all live holds of the lock ID to ttl from now, or to Forever. It shortens
// none. It returns the renewed holds with the time that they have left, or at least have
// left if the store does not return it in the same round trip. The error is ErrLost if there
// was no hold to renew. With any other error some holds may not be renewed. RenewID is not
// atomic.
func (a *Admin) RenewID(ctx context.Context, lockID string, ttl time.Duration) ([]Status, error) {
	c := a.client
	if err := cmp.Or(driver.ValidLockID(lockID), c.invalid); err != nil {
		return nil, wrap("renew", lockID, err)
	}
	ttl, err := c.validTTL(ttl)
	if err != nil {
		return nil, wrap("renew", lockID, err)
	}
	listed := c.clock()
	ss, err := c.list(ctx, Filter{LockID: lockID})
	if err != nil {
		return nil, err
	}
	ss = slices.DeleteFunc(ss, func(s Status) bool { return s.Released || s.Left == 0 })
	if err := c.start(ctx); err != nil {
		return nil, wrap("renew", lockID, err)
	}
	defer c.scope.Leave()

	var renewed []Status
	var errs []error
	for part := range slices.Chunk(ss, renewBatch) {
		refs := make([]driver.HoldRef, len(part))
		for i, s := range part {
			refs[i] = s.Ref()
		}
		sent := c.clock()
		for i, r := range c.leases.Renew(ctx, refs, ttl) {
			s, err := part[i], r.Err
			if err != nil {
				errs = append(errs, wrap("renew", s.Resource, err))
				continue
			}
			if left := r.Left; left != driver.Unknown {
				s.Left = left
			} else {
				// At least that: a renewal never shortens a hold.
				now := c.clock()
				s.Left = max(lessElapsed(s.Left, now-listed), lessElapsed(ttl, now-sent))
			}
			renewed = append(renewed, s)
		}
	}
	if len(ss) == 0 {
		errs = append(errs, fmt.Errorf("holdfast: no hold of lock ID %q to renew: %w", lockID, ErrLost))
	}
	return renewed, errors.Join(errs...)
}

// renewBatch is how many holds RenewID renews with one request.
const renewBatch = 1000

// lessElapsed returns left less the elapsed time, at least 0.
func lessElapsed(left, elapsed time.Duration) time.Duration {
	if left == Forever {
		return Forever
	}
	return max(left-elapsed, 0)
}
