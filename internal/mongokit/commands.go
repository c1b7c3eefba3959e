package mongokit

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

// alone is ctx without the session that it may carry. A hold that is written in a
// transaction of the caller's is seen by nobody before the commit, is gone when
// the transaction is aborted, and has the transaction's write concern; what is read
// in one is as old as that.
func alone(ctx context.Context) context.Context { return mongo.NewSessionContext(ctx, nil) }

// FindOneAndUpdate is the driver's.
func (c *Collection) FindOneAndUpdate(
	ctx context.Context, filter bson.D, update Pipeline, opts *options.FindOneAndUpdateOptionsBuilder,
) (bson.Raw, error) {
	return c.coll.FindOneAndUpdate(alone(ctx), filter, update, opts).Raw()
}

// FindOne is the driver's.
func (c *Collection) FindOne(ctx context.Context, filter bson.D, opts *options.FindOneOptionsBuilder) (bson.Raw, error) {
	return c.coll.FindOne(alone(ctx), filter, opts).Raw()
}

// DeleteMany is the driver's. It returns how many were deleted.
func (c *Collection) DeleteMany(ctx context.Context, filter bson.D, opts ...options.Lister[options.DeleteManyOptions]) (int, error) {
	res, err := c.coll.DeleteMany(alone(ctx), filter, opts...)
	if err != nil {
		return 0, err
	}
	return int(res.DeletedCount), nil
}

// Aggregate is the driver's. All documents are decoded into the slice results.
func (c *Collection) Aggregate(
	ctx context.Context, pipeline mongo.Pipeline, results any, opts ...options.Lister[options.AggregateOptions],
) error {
	cursor, err := c.coll.Aggregate(alone(ctx), pipeline, opts...)
	if err != nil {
		return err
	}
	return cursor.All(alone(ctx), results)
}

// CreateIndexes is the driver's.
func (c *Collection) CreateIndexes(ctx context.Context, models ...mongo.IndexModel) error {
	_, err := c.coll.Indexes().CreateMany(alone(ctx), models)
	return err
}

// Watch opens a change stream, whose changes have the whole document. It has a
// read concern of its own: there are no streams with another.
func (c *Collection) Watch(ctx context.Context, pipeline mongo.Pipeline) (*mongo.ChangeStream, error) {
	return c.coll.Clone(options.Collection().SetReadConcern(readconcern.Majority())).
		Watch(alone(ctx), pipeline, options.ChangeStream().SetFullDocument(options.UpdateLookup))
}
