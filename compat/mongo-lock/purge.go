package lock

import (
	"context"
	"slices"
	"sort"

	"github.com/holdfast-go/holdfast/driver"
)

// Purger unlocks expired locks.
type Purger interface {
	// Purge unlocks all locks, live ones too, of every lockId that has an expired
	// lock. It returns them, the newest first, each as it was before. After an error
	// it returns those that were unlocked until then.
	//
	// Expired locks never block this package, purged or not. They do block programs
	// with mongo-lock.
	Purge(ctx context.Context) ([]LockStatus, error)
}

// NewPurger returns a Purger of the client's collection.
func NewPurger(client *Client) Purger { return &purger{client: client} }

type purger struct{ client *Client }

func (p *purger) Purge(ctx context.Context) ([]LockStatus, error) {
	purged := []LockStatus{}
	err := p.client.check(ctx)
	if err != nil {
		return purged, wrap("purge", "", err)
	}
	expired, err := p.client.list(ctx, driver.Filter{Expired: true, LeftBelow: 1})
	seen := make(map[string]bool)
	for _, s := range expired {
		if seen[s.LockID] {
			continue
		}
		seen[s.LockID] = true
		var some []LockStatus
		some, err = p.client.purge(ctx, s.LockID)
		purged = append(purged, some...)
		if err != nil {
			break
		}
	}
	if err != nil {
		err = wrap("purge", "", err)
	}
	sort.Sort(LockStatusesByCreatedAtDesc(purged))
	return purged, err
}

// purge looks again, because the expired lock of the lock ID may have been swept since,
// or locked again. A hold that still blocks after its end is in its takeover delay, and
// has not expired. purge releases the holds that it saw: one that is granted later has
// another hold ID.
func (c *Client) purge(ctx context.Context, lockID string) ([]LockStatus, error) {
	holds, err := c.holds(ctx, lockID)
	if err != nil {
		return nil, err
	}
	blocking, err := c.list(ctx, driver.Filter{LockID: lockID})
	if err != nil {
		return nil, err
	}
	blocks := make(map[driver.HoldRef]bool, len(blocking))
	for _, s := range blocking {
		blocks[s.Ref()] = true
	}
	if !slices.ContainsFunc(holds, func(s driver.Status) bool { return !s.Live() && !blocks[s.Ref()] }) {
		return nil, nil
	}
	return c.release(ctx, holds, false)
}
