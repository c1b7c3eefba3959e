// Package oldmongodoc imitates programs that lock in MongoDB with one of two hand-written
// recipes or with the npm package distributed-locks-mongodb. It sends the same statements, and
// has the same faults.
package oldmongodoc

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Program is an old program.
type Program interface {
	// Lock tries once.
	Lock(ctx context.Context, name string) (granted bool, err error)
	// Extend restarts a hold, of any program. It returns ErrCannot if the program has no
	// extension.
	Extend(ctx context.Context, name string) error
	// Unlock ends a hold as the program does.
	Unlock(ctx context.Context, name string) error
}

// ErrCannot means that the program has no such operation.
var ErrCannot = errors.New("this program cannot do that")

// Insert is the first recipe: the document is the lock, and a TTL index removes it.
type Insert struct {
	Coll *mongo.Collection
	// Now is the program's clock.
	Now func() time.Time
	// Shift lengthens or shortens holds compared with the index.
	Shift time.Duration
}

// Lock inserts the document.
func (p *Insert) Lock(ctx context.Context, name string) (bool, error) {
	_, err := p.Coll.InsertOne(ctx, bson.D{{Key: "_id", Value: name}, {Key: "lockedAt", Value: p.Now().Add(p.Shift)}})
	if mongo.IsDuplicateKeyError(err) {
		return false, nil
	}
	return err == nil, err
}

// Extend refreshes lockedAt.
func (p *Insert) Extend(ctx context.Context, name string) error {
	_, err := p.Coll.UpdateByID(ctx, name, bson.D{{Key: "$set", Value: bson.D{{Key: "lockedAt", Value: p.Now().Add(p.Shift)}}}})
	return err
}

// Unlock removes the document.
func (p *Insert) Unlock(ctx context.Context, name string) error {
	_, err := p.Coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: name}})
	return err
}

// Monitor does once what the server does every minute for a TTL index.
func Monitor(ctx context.Context, coll *mongo.Collection, now time.Time, timeout time.Duration) error {
	_, err := coll.DeleteMany(ctx, bson.D{{Key: "lockedAt", Value: bson.D{
		{Key: "$gte", Value: bson.DateTime(-1 << 62)}, {Key: "$lte", Value: now.Add(-timeout)},
	}}})
	return err
}

// Flag is the second recipe: it updates a document that was created before.
type Flag struct {
	Coll    *mongo.Collection
	Now     func() time.Time
	Timeout time.Duration
}

// Create creates the document of a lock.
func (p *Flag) Create(ctx context.Context, name string) error {
	_, err := p.Coll.InsertOne(ctx, bson.D{{Key: "_id", Value: name}, {Key: "locked", Value: false}})
	return err
}

// Lock updates the document if it is free, or has been locked for too long.
func (p *Flag) Lock(ctx context.Context, name string) (bool, error) {
	now := p.Now()
	res, err := p.Coll.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: name}, {Key: "$or", Value: bson.A{
			bson.D{{Key: "locked", Value: false}},
			bson.D{{Key: "lockedAt", Value: bson.D{{Key: "$lt", Value: now.Add(-p.Timeout)}}}},
		}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "locked", Value: true}, {Key: "lockedAt", Value: now}}}})
	return err == nil && res.MatchedCount == 1, err
}

// Extend refreshes lockedAt.
func (p *Flag) Extend(ctx context.Context, name string) error {
	_, err := p.Coll.UpdateByID(ctx, name, bson.D{{Key: "$set", Value: bson.D{{Key: "lockedAt", Value: p.Now()}}}})
	return err
}

// Unlock sets locked to false.
func (p *Flag) Unlock(ctx context.Context, name string) error {
	_, err := p.Coll.UpdateByID(ctx, name, bson.D{{Key: "$set", Value: bson.D{{Key: "locked", Value: false}}}})
	return err
}

// Value is a program with distributed-locks-mongodb.
type Value struct {
	Coll *mongo.Collection
	// Value identifies the holds of the program.
	Value string
	// Seconds is the duration of holds.
	Seconds int
}

// Lock reads, then writes.
func (p *Value) Lock(ctx context.Context, name string) (bool, error) {
	var seen struct {
		Value      any       `bson:"value"`
		TTL        float64   `bson:"ttl"`
		ObtainedAt time.Time `bson:"obtained_at"`
		Current    time.Time `bson:"current_date"`
	}
	err := p.Coll.FindOne(ctx, bson.D{{Key: "_id", Value: name}}, options.FindOne().SetProjection(bson.D{
		{Key: "_id", Value: 1}, {Key: "value", Value: 1}, {Key: "ttl", Value: 1}, {Key: "obtained_at", Value: 1},
		{Key: "current_date", Value: "$$NOW"},
	})).Decode(&seen)
	filter := bson.D{{Key: "_id", Value: name}, {Key: "value", Value: p.Value}}
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
	case err != nil:
		return false, err
	case !seen.Current.After(seen.ObtainedAt.Add(time.Duration(seen.TTL) * time.Second)):
		return false, nil
	default:
		filter = bson.D{{Key: "_id", Value: name}, {Key: "value", Value: seen.Value}, {Key: "obtained_at", Value: seen.ObtainedAt}}
	}
	res, err := p.Coll.UpdateOne(ctx, filter, bson.D{
		{Key: "$set", Value: bson.D{{Key: "value", Value: p.Value}, {Key: "ttl", Value: p.Seconds}}},
		{Key: "$currentDate", Value: bson.D{{Key: "obtained_at", Value: bson.D{{Key: "$type", Value: "date"}}}}},
	}, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return false, nil
	}
	return err == nil && (res.ModifiedCount > 0 || res.UpsertedCount > 0), err
}

// Extend returns ErrCannot: the package has no extension.
func (p *Value) Extend(context.Context, string) error { return ErrCannot }

// Unlock deletes the document if it has the value.
func (p *Value) Unlock(ctx context.Context, name string) error {
	_, err := p.Coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: name}, {Key: "value", Value: p.Value}})
	return err
}
