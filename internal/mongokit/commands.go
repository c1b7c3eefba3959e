package mongokit

import (
	"context"
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// withoutSession returns ctx without its session. A hold written in the caller's
// transaction would be invisible before the commit, would disappear if the transaction is
// aborted, and would have the transaction's write concern. Reads would be as old as the
// transaction.
func withoutSession(ctx context.Context) context.Context { return mongo.NewSessionContext(ctx, nil) }

// notSent is the text of the driver's error for a command that it did not send.
// The error itself is in a package that the driver declares unstable.
const notSent = "operation not sent to server, as Timeout would be exceeded"

// send makes the driver send a command, without a session.
//
// The driver does not send a command that has less time than the quickest of its last ten
// heartbeats took. Heartbeats come every 10 s. So after a slow start the driver refuses
// short attempts although the server is quick again, for longer than a lock with a short
// TTL lives. A refused command has reached no server. send repeats it with a ctx that
// ends at the same time but has no deadline. Other commands keep the deadline, because
// without one the driver closes the connection when the ctx ends.
func send[T any](ctx context.Context, command func(context.Context) (T, error)) (T, error) {
	ctx = withoutSession(ctx)
	result, err := command(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), notSent) || ctx.Err() != nil {
		return result, foreign.Error(ctx, err)
	}
	// Only this cancellation stops the driver at the deadline of ctx.
	undated, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	result, err = command(undated)
	return result, foreign.Error(ctx, err)
}

// FindOneAndUpdate calls the driver's FindOneAndUpdate.
func (c *Collection) FindOneAndUpdate(
	ctx context.Context, filter bson.D, update Pipeline, opts *options.FindOneAndUpdateOptionsBuilder,
) (bson.Raw, error) {
	return send(ctx, func(ctx context.Context) (bson.Raw, error) {
		return c.coll.FindOneAndUpdate(ctx, filter, update, opts).Raw()
	})
}

// DeleteMany calls the driver's DeleteMany, and returns the number of deleted documents.
func (c *Collection) DeleteMany(ctx context.Context, filter bson.D, opts ...options.Lister[options.DeleteManyOptions]) (int, error) {
	res, err := send(ctx, func(ctx context.Context) (*mongo.DeleteResult, error) {
		return c.coll.DeleteMany(ctx, filter, opts...)
	})
	if err != nil {
		return 0, err
	}
	return int(res.DeletedCount), nil
}

// Aggregate calls the driver's Aggregate, and decodes all documents into the slice
// results.
func (c *Collection) Aggregate(
	ctx context.Context, pipeline mongo.Pipeline, results any, opts ...options.Lister[options.AggregateOptions],
) error {
	_, err := send(ctx, func(ctx context.Context) (none struct{}, err error) {
		cursor, err := c.coll.Aggregate(ctx, pipeline, opts...)
		if err != nil {
			return none, err
		}
		return none, cursor.All(ctx, results)
	})
	return err
}

// CreateIndexes calls the driver's CreateMany.
func (c *Collection) CreateIndexes(ctx context.Context, models ...mongo.IndexModel) error {
	_, err := send(ctx, func(ctx context.Context) ([]string, error) {
		return c.coll.Indexes().CreateMany(ctx, models)
	})
	return err
}

// Watch opens a change stream that reports whole documents. It needs read concern
// majority.
func (c *Collection) Watch(ctx context.Context, pipeline mongo.Pipeline) (*mongo.ChangeStream, error) {
	return send(ctx, func(ctx context.Context) (*mongo.ChangeStream, error) {
		return c.coll.Clone(options.Collection().SetReadConcern(readconcern.Majority())).
			Watch(ctx, pipeline, options.ChangeStream().SetFullDocument(options.UpdateLookup))
	})
}
