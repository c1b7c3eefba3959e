package lock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// leftToRenew is the time that a lock must have left to be renewed, so that a purge
	// with another clock does not come before the renewal.
	leftToRenew = time.Second
	// shortest is the shortest possible TTL.
	shortest = time.Millisecond
	// batch is the number of locks that are renewed in one round trip.
	batch = 500
)

// Status returns the locks that the filter chooses, the newest first, including expired
// locks that are still in the collection. It is not a snapshot: documents are read one
// after the other.
func (c *Client) Status(ctx context.Context, f Filter) ([]LockStatus, error) {
	statuses := []LockStatus{}
	err := f.validate()
	if err == nil {
		err = c.check(ctx)
	}
	if err != nil {
		return statuses, wrap("status", "", err)
	}
	holds, err := c.list(ctx, driver.Filter{
		Resource: f.Resource, LockID: f.LockId, Owner: f.Owner,
		CreatedBefore: f.CreatedBefore, CreatedAfter: f.CreatedAfter, Expired: true,
	})
	if err != nil {
		return statuses, wrap("status", "", err)
	}
	for _, s := range holds {
		if ls := statusOf(s); f.matchTTL(ls.TTL) {
			statuses = append(statuses, ls)
		}
	}
	sort.Sort(LockStatusesByCreatedAtDesc(statuses))
	return statuses, nil
}

func (f Filter) validate() (err error) {
	if f.Resource != "" {
		err = driver.ValidResource(f.Resource)
	}
	if f.LockId != "" {
		err = cmp.Or(err, driver.ValidLockID(f.LockId))
	}
	return cmp.Or(err, driver.Details{Owner: f.Owner}.Validate())
}

// Unlock unlocks all locks of the lockId, the newest first, and returns them in that
// order, each as it was before. It may miss locks that are acquired while it runs. It is
// not an error if there is nothing to unlock.
//
// After an error the returned locks are unlocked, and others may be. Call Unlock again.
func (c *Client) Unlock(ctx context.Context, lockId string) ([]LockStatus, error) {
	holds, err := c.holds(ctx, lockId)
	if err != nil {
		return []LockStatus{}, wrap("unlock", lockId, err)
	}
	unlocked, err := c.release(ctx, holds, true)
	if err != nil {
		err = wrap("unlock", lockId, err)
	}
	return unlocked, err
}

// Renew sets the TTL of all locks of the lockId, in seconds from now on, even if that is
// less than they have left. A TTL of 0 ends them. Renew returns them with their new TTL,
// the newest first, without locks that were unlocked in between.
//
// ErrLockNotFound means that there are no locks, that one has less than a second left
// (then none is renewed), or that one was lost in between. After any error the caller
// should unlock the lockId, because some locks may not have been renewed.
func (c *Client) Renew(ctx context.Context, lockId string, ttl uint) ([]LockStatus, error) {
	statuses := []LockStatus{}
	d, err := seconds(ttl)
	if err != nil {
		return statuses, wrap("renew", lockId, err)
	}
	holds, err := c.holds(ctx, lockId)
	if err != nil {
		return statuses, wrap("renew", lockId, err)
	}
	if len(holds) == 0 || slices.ContainsFunc(holds, tooLate) {
		return statuses, ErrLockNotFound
	}
	renewed := make(map[string]driver.HoldRef, len(holds)) // by resource
	err = c.renew(ctx, holds, d, renewed)
	if err == nil && len(renewed) < len(holds) {
		err = c.renewOfOthers(ctx, lockId, holds, d, renewed)
	}
	if err != nil {
		return statuses, wrap("renew", lockId, err)
	}
	if len(renewed) < len(holds) {
		err = ErrLockNotFound
	}
	// The server knows the time of the renewal and the time left.
	listed, failed := c.holds(ctx, lockId)
	if failed != nil {
		return statuses, wrap("renew", lockId, failed)
	}
	for _, s := range listed {
		ref, ok := renewed[s.Resource]
		if ok && (s.Ref() == ref || s.HoldID.IsZero()) { // without an ID, an old client renewed it after that
			statuses = append(statuses, statusOf(s))
		}
	}
	return statuses, err
}

func tooLate(s driver.Status) bool { return s.Left < leftToRenew || s.Released }

// renew renews holds and adds the renewed ones to renewed.
func (c *Client) renew(ctx context.Context, holds []driver.Status, ttl time.Duration, renewed map[string]driver.HoldRef) error {
	for part := range slices.Chunk(holds, batch) {
		qs := make([]driver.RenewRequest, len(part))
		for i, s := range part {
			qs[i] = driver.RenewRequest{HoldRef: s.Ref(), TTL: max(ttl, shortest)}
		}
		results, err := c.store.Renew(ctx, qs)
		for i, r := range results {
			switch {
			case r.Err == nil:
				renewed[part[i].Resource] = part[i].Ref()
			case !errors.Is(r.Err, driver.ErrLost):
				err = cmp.Or(err, r.Err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renewOfOthers renews holds that an old client has renewed, and so taken over, since
// they were listed: it renews whatever hold the lock ID has now. It sends one request per
// hold, as for every hold without an ID.
func (c *Client) renewOfOthers(
	ctx context.Context, lockID string, holds []driver.Status, ttl time.Duration, renewed map[string]driver.HoldRef,
) error {
	listed, err := c.holds(ctx, lockID)
	if err != nil {
		return err
	}
	was := make(map[string]bool, len(holds))
	for _, s := range holds {
		was[s.Resource] = true
	}
	return c.renew(ctx, slices.DeleteFunc(listed, func(s driver.Status) bool {
		_, done := renewed[s.Resource]
		return done || !was[s.Resource] || !s.HoldID.IsZero() || tooLate(s)
	}), ttl, renewed)
}

// holds lists all holds of the lock ID, expired ones too, the newest first.
func (c *Client) holds(ctx context.Context, lockID string) ([]driver.Status, error) {
	if err := driver.ValidLockID(lockID); err != nil {
		return nil, err
	}
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	holds, err := c.list(ctx, driver.Filter{LockID: lockID, Expired: true})
	slices.SortFunc(holds, func(a, b driver.Status) int {
		return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(b.HoldID[:], a.HoldID[:]))
	})
	return holds, err
}

func (c *Client) list(ctx context.Context, f driver.Filter) (holds []driver.Status, err error) {
	for s, err := range c.store.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		holds = append(holds, s)
	}
	return holds, nil
}

// release releases holds one after the other and returns the holds that existed. It
// releases only the listed holds, by hold ID and token. A lock of an old client has
// neither: release then sends one request, for whatever hold the lock ID has on the
// resource.
//
// An old client that renews a lock after it was listed takes it over. If renewed is set,
// release releases such locks, too.
func (c *Client) release(ctx context.Context, holds []driver.Status, renewed bool) ([]LockStatus, error) {
	released := []LockStatus{}
	for _, s := range holds {
		result, err := c.releaseOne(ctx, s.Ref())
		if err == nil && result.Remains && renewed {
			result, err = c.releaseOne(ctx, driver.HoldRef{Resource: s.Resource, LockID: s.LockID})
		}
		if err != nil {
			return released, err
		}
		if result.Found {
			released = append(released, statusOf(s))
		}
	}
	return released, nil
}

func (c *Client) releaseOne(ctx context.Context, ref driver.HoldRef) (driver.ReleaseResult, error) {
	results, err := c.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
	if err != nil {
		return driver.ReleaseResult{}, err
	}
	return results[0], results[0].Err
}
