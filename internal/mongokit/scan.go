package mongokit

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// NowField is the field in which projections return $$NOW: the server's clock when
// the command began.
const NowField = "now"

// Now returns the server's clock in a reply. Servers before MongoDB 4.4 do not compute
// it.
func (c *Collection) Now(reply bson.Raw) (model.Time, error) {
	t, ok := reply.Lookup(NowField).DateTimeOK()
	if !ok {
		return 0, c.Unusable("the server does not return the time in a projection: MongoDB 4.4 is needed", nil)
	}
	return model.Time(t) * 1000, nil
}

// batchSize is the number of documents in one reply, unless they exceed 16 MB: the size
// of a batch of renewals. The server's default for the first reply is 101.
const batchSize = 500

// Scan yields the matching documents from a cursor. A document is valid until the next
// one is read. Scan ends after the first error.
func (c *Collection) Scan(ctx context.Context, query bson.D, opts *options.FindOptionsBuilder) iter.Seq2[bson.Raw, error] {
	ctx = withoutSession(ctx)
	return func(yield func(bson.Raw, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		cursor, err := send(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.coll.Find(ctx, query, opts.SetBatchSize(batchSize))
		})
		if err != nil {
			yield(nil, c.Wrap(err))
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			if !yield(cursor.Current, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(nil, c.Wrap(foreign.Error(ctx, err)))
		}
	}
}

// Answer returns the server's decision about a request, which the document shows: it has
// the hold if it was granted, now or by an earlier attempt. Answer does not know the
// place of the request.
func Answer(f Found, q driver.AcquireRequest) (driver.Grant, error) {
	q.Place = driver.PlaceID{}
	_, g, changed, err := model.Acquire(f.Record, f.Now, q)
	switch {
	case changed && f.Hidden:
		return driver.Grant{}, model.Refused(f.Record, f.Now, q)
	case changed:
		return driver.Grant{}, fmt.Errorf("the server neither granted %q nor is a hold in the way", q.Resource)
	}
	for _, h := range f.Record.Holds {
		if err == nil && h.HoldID == q.HoldID {
			// This is the time when the command began. The command may then have waited
			// for one that began later: a repeat of the request, or a renewal.
			g.Left = min(g.Left, h.End.Until(max(h.Created, h.Renewed)))
		}
	}
	return g, err
}
