package lock

import (
	"context"
	"slices"
	"sort"

	"github.com/holdfast-go/holdfast/driver"
)

// Purger unlocks what has expired.
type Purger interface {
	// Purge unlocks all locks of every lockId of which one has expired, be the
	// others live or not, and returns them, the newest first, each as it was
	// before. After an error it returns what was unlocked until then.
	//
	// Locks of this package that have expired block nobody, purged or not. Those
	// of mongo-lock do block other programs with mongo-lock.
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

// purge looks again, for much may have happened since a lock of the lock ID was
// seen expired: it was locked anew, or swept. What blocks although its end is past
// is in its takeover delay, and has not expired for anybody. What it then
// takes is what it saw; a hold that is granted later has another hold ID.
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
