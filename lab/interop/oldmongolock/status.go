package oldmongolock

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Status is a lock as Status reports it.
type Status struct {
	Resource  string
	LockID    string
	Shared    bool
	CreatedAt time.Time
	ExpiresAt time.Time // zero: no end
}

// Filter chooses locks; a zero field matches all.
type Filter struct {
	Resource string
	LockID   string
	Expired  bool // on the program's clock
}

// Status finds the documents with a matching lock. It returns their matching shared locks, and
// all their exclusive ones.
func (c *Client) Status(ctx context.Context, f Filter) ([]Status, error) {
	exclusive, shared, chosen := bson.M{}, bson.M{}, bson.A{}
	if f.Expired {
		now := c.clock()
		exclusive["exclusive.expiresAt"], shared["shared.locks.expiresAt"] = bson.M{"$lt": now}, bson.M{"$lt": now}
		chosen = append(chosen,
			bson.M{"$lt": bson.A{"$$lock.expiresAt", now}}, bson.M{"$gt": bson.A{"$$lock.expiresAt", nil}})
	}
	if f.LockID != "" {
		exclusive["exclusive.lockId"], shared["shared.locks.lockId"] = f.LockID, f.LockID
		chosen = append(chosen, bson.M{"$eq": bson.A{"$$lock.lockId", f.LockID}})
	}
	match := bson.M{"$or": bson.A{exclusive, shared}}
	if f.Resource != "" {
		match["resource"] = f.Resource
	}
	cursor, err := c.coll.Aggregate(ctx, bson.A{
		bson.M{"$match": match},
		bson.M{"$project": bson.M{
			"resource": true, "exclusive": true,
			"shared.locks": bson.M{"$filter": bson.M{
				"input": "$shared.locks", "as": "lock", "cond": bson.M{"$and": chosen},
			}},
		}},
	})
	if err != nil {
		return nil, err
	}
	var docs []document
	if err := cursor.All(ctx, &docs); err != nil {
		return nil, err
	}
	var all []Status
	for _, d := range docs {
		if d.Exclusive.Acquired {
			all = append(all, d.Exclusive.status(d.Resource, false))
		}
		for _, l := range d.Shared.Locks {
			all = append(all, l.status(d.Resource, true))
		}
	}
	return all, nil
}

func (l lock) status(resource string, shared bool) Status {
	s := Status{Resource: resource, Shared: shared}
	if l.LockID != nil {
		s.LockID = *l.LockID
	}
	if l.CreatedAt != nil {
		s.CreatedAt = *l.CreatedAt
	}
	if l.ExpiresAt != nil {
		s.ExpiresAt = *l.ExpiresAt
	}
	return s
}

// Purge unlocks the lock ID of each lock that has expired on the program's clock, without
// checking again.
func (c *Client) Purge(ctx context.Context) ([]Status, error) {
	expired, err := c.Status(ctx, Filter{Expired: true})
	if err != nil {
		return nil, err
	}
	var purged []Status
	for _, l := range expired {
		unlocked, err := c.Unlock(ctx, l.LockID)
		if err != nil {
			return purged, err
		}
		purged = append(purged, unlocked...)
	}
	return purged, nil
}
