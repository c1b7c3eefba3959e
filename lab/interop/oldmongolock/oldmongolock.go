// Package oldmongolock stands in for programs with the Go package mongo-lock, which
// no module proxy serves. It sends the statements that such programs send and
// takes the answers as they do, mistakes included: the tests of what excludes
// them race it against Holdfast.
package oldmongolock

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The outcomes that it knows.
var (
	ErrAlreadyLocked = errors.New("old client: already locked")
	ErrLockNotFound  = errors.New("old client: lock not found")
)

// Client is one such program. The clock is its own, and decides for it.
type Client struct {
	coll  *mongo.Collection
	clock func() time.Time
}

// New returns a program that has that clock.
func New(coll *mongo.Collection, clock func() time.Time) *Client {
	return &Client{coll: coll, clock: clock}
}

// lock is one as it writes it.
type lock struct {
	LockID    *string       `bson:"lockId"`
	Owner     *string       `bson:"owner"`
	Host      *string       `bson:"host"`
	Comment   *string       `bson:"comment"`
	CreatedAt *time.Time    `bson:"createdAt"`
	RenewedAt *time.Time    `bson:"renewedAt"`
	ExpiresAt *time.Time    `bson:"expiresAt"`
	Acquired  bool          `bson:"acquired"`
	ID        bson.ObjectID `bson:"_id,omitempty"`
}

type sharedLocks struct {
	Count uint   `bson:"count"`
	Locks []lock `bson:"locks"`
}

type document struct {
	Resource  string      `bson:"resource"`
	Exclusive lock        `bson:"exclusive"`
	Shared    sharedLocks `bson:"shared"`
}

func (c *Client) newLock(lockID string, ttl time.Duration) lock {
	now := c.clock()
	l := lock{LockID: &lockID, CreatedAt: &now, Acquired: true, ID: bson.NewObjectID()}
	if ttl > 0 {
		end := now.Add(ttl)
		l.ExpiresAt = &end
	}
	return l
}

// XLock needs a resource without shared locks, whose exclusive one is free or
// expired on its own clock. It replaces both parts of the document.
func (c *Client) XLock(ctx context.Context, resource, lockID string, ttl time.Duration) error {
	return c.upsert(ctx, bson.M{
		"resource": resource, "shared.count": 0,
		"$or": bson.A{
			bson.M{"exclusive.acquired": false},
			bson.M{"exclusive.expiresAt": bson.M{"$lte": c.clock()}},
		},
	}, bson.M{"$set": document{
		Resource: resource, Exclusive: c.newLock(lockID, ttl), Shared: sharedLocks{Locks: []lock{}},
	}})
}

// SLock needs a resource without an exclusive lock, be that expired, and with
// fewer shared ones than most, unless that is negative.
func (c *Client) SLock(ctx context.Context, resource, lockID string, ttl time.Duration, most int) error {
	filter := bson.M{
		"resource": resource, "exclusive.acquired": false, "shared.locks.lockId": bson.M{"$ne": lockID},
	}
	if most >= 0 {
		filter["shared.count"] = bson.M{"$lt": most}
	}
	return c.upsert(ctx, filter, bson.M{
		"$inc": bson.M{"shared.count": 1}, "$push": bson.M{"shared.locks": c.newLock(lockID, ttl)},
	})
}

// upsert: what does not match is inserted, and collides with what is there. So do
// two first inserts, of which one might have been room for.
func (c *Client) upsert(ctx context.Context, filter, update bson.M) error {
	err := c.coll.FindOneAndUpdate(ctx, filter, update,
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
	if mongo.IsDuplicateKeyError(err) {
		return ErrAlreadyLocked
	}
	return err
}

// Unlock reads the locks of the lock ID and unlocks them by resource and lock ID,
// the newest first. It says what it unlocked.
func (c *Client) Unlock(ctx context.Context, lockID string) ([]Status, error) {
	locks, err := c.Status(ctx, Filter{LockID: lockID})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(locks, func(a, b Status) int { return b.CreatedAt.Compare(a.CreatedAt) })
	var unlocked []Status
	for _, l := range locks {
		filter, update := bson.M{"resource": l.Resource}, bson.M{}
		if l.Shared {
			filter["shared.locks.lockId"] = lockID
			update["$inc"] = bson.M{"shared.count": -1}
			update["$pull"] = bson.M{"shared.locks": bson.M{"lockId": lockID}}
		} else {
			filter["exclusive.lockId"] = lockID
			update["$set"] = bson.M{"exclusive": lock{}}
		}
		// Whatever went wrong is taken for a lock that is gone.
		if c.update(ctx, filter, update) == nil {
			unlocked = append(unlocked, l)
		}
	}
	return unlocked, nil
}

// Renew renews the locks of the lock ID that have more than a second left on its
// clock, one by one, until one has not.
func (c *Client) Renew(ctx context.Context, lockID string, ttl time.Duration) error {
	locks, err := c.Status(ctx, Filter{LockID: lockID})
	if err != nil {
		return err
	}
	if len(locks) == 0 {
		return ErrLockNotFound
	}
	now := c.clock()
	end, left := now.Add(ttl), bson.M{"$gt": now.Add(time.Second)}
	for _, l := range locks {
		set := func(at string) bson.M {
			return bson.M{"$set": bson.M{at + ".expiresAt": end, at + ".renewedAt": now}}
		}
		var err error
		if l.Shared {
			// The positional operator says the same; the emulator has it for less.
			err = c.update(ctx, bson.M{
				"resource": l.Resource, "shared.locks": bson.M{"$elemMatch": bson.M{"lockId": lockID, "expiresAt": left}},
			}, set("shared.locks.$[l]"), options.FindOneAndUpdate().SetArrayFilters([]any{
				bson.M{"l.lockId": lockID, "l.expiresAt": left},
			}))
		} else {
			err = c.update(ctx, bson.M{
				"resource": l.Resource, "exclusive.lockId": lockID, "exclusive.expiresAt": left,
			}, set("exclusive"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update takes every error for a lock that is not there.
func (c *Client) update(ctx context.Context, filter, update bson.M, opts ...options.Lister[options.FindOneAndUpdateOptions]) error {
	if c.coll.FindOneAndUpdate(ctx, filter, update, opts...).Err() != nil {
		return ErrLockNotFound
	}
	return nil
}
