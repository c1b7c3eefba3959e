package lock

import (
	"context"
	"slices"
	"sort"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Purger unlocks expired locks.
type Purger interface {
	// Purge unlocks all locks, live ones too, of every lockId that has an expired lock.
	// It returns them, the newest first, each as it was before. After an error it returns
	// the locks that were unlocked until then.
	//
	// Expired locks never block this package, purged or not. They do block programs with
	// mongo-lock.
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

// purge unlocks the expired locks of the lock ID first. The server decides whether they
// have expired, in the statement that unlocks them: since they were listed they may have
// been swept, locked again, or renewed by a timely request that had to wait. If one of
// them has expired, purge releases the other locks of the lock ID, too. A hold that still
// blocks after its end is in its takeover delay, and has not expired. purge releases only
// listed holds: a hold that is granted later has another hold ID.
func (c *Client) purge(ctx context.Context, lockID string) ([]LockStatus, error) {
	holds, err := c.holds(ctx, lockID)
	if err != nil {
		return nil, err
	}
	purged := []LockStatus{}
	expired := make(map[driver.HoldRef]bool)
	for _, s := range holds {
		if s.Live() {
			continue
		}
		result, err := c.releaseOne(mongokit.OnlyExpired(ctx), s.Ref())
		if err != nil {
			return purged, err
		}
		if result.Found {
			expired[s.Ref()] = true
			purged = append(purged, statusOf(s))
		}
	}
	if len(purged) == 0 {
		return nil, nil
	}
	rest, err := c.release(ctx, slices.DeleteFunc(holds, func(s driver.Status) bool { return expired[s.Ref()] }), false)
	return append(purged, rest...), err
}
