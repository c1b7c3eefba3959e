// Package oldmongolock imitates programs that use the Go package mongo-lock, which no module
// proxy serves. It sends the same statements and reads the answers in the same way, mistakes
// included, so that tests can race such programs against Holdfast.
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

// The errors that such programs know.
var (
	ErrAlreadyLocked = errors.New("old client: already locked")
	ErrLockNotFound  = errors.New("old client: lock not found")
)

// Client is one such program. Its decisions use its own clock.
type Client struct {
	coll  *mongo.Collection
	clock func() time.Time
}

// New returns a program with the clock.
func New(coll *mongo.Collection, clock func() time.Time) *Client {
	return &Client{coll: coll, clock: clock}
}

// lock is a lock as such programs write it.
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

// sharedLocks is the part of a document with its shared locks.
type sharedLocks struct {
	Count uint   `bson:"count"`
	Locks []lock `bson:"locks"`
}

// document is the document of a resource.
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

// XLock requires a resource without shared locks whose exclusive lock is free, or expired on
// the program's clock. It replaces both parts of the document.
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

// SLock requires a resource without an exclusive lock, even an expired one, and with fewer than
// most shared locks, unless most is negative.
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

// upsert inserts a document if none matches, and collides with an existing one. Two first
// inserts collide too, although there might be room for one of them.
func (c *Client) upsert(ctx context.Context, filter, update bson.M) error {
	err := c.coll.FindOneAndUpdate(ctx, filter, update,
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
	if mongo.IsDuplicateKeyError(err) {
		return ErrAlreadyLocked
	}
	return err
}

// Unlock reads the locks of the lock ID and unlocks them by resource and lock ID, the newest
// first. It returns the unlocked ones.
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
		// Any error is taken for a lock that is gone.
		if c.update(ctx, filter, update) == nil {
			unlocked = append(unlocked, l)
		}
	}
	return unlocked, nil
}

// Renew renews the locks of the lock ID one by one, until one has less than a second left on
// the program's clock.
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
			// The positional operator means the same; the emulator supports it for fewer cases.
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
