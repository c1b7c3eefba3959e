package mongokit

import (
	"context"
	"errors"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver/model"
)

// Chunk is how many documents a sweep changes in one round trip.
const Chunk = 500

// Kind returns the layout of the collection, as KindOf does: one document shows it,
// because the collection is used for locks alone. ok is false if there is none, or if
// it could be of any layout.
func (c *Collection) Kind(ctx context.Context) (name string, ok bool, err error) {
	doc, err := c.FindOne(ctx, bson.D{}, options.FindOne())
	if errors.Is(err, mongo.ErrNoDocuments) {
		return "", false, nil
	}
	if err != nil {
		return "", false, c.Wrap(err)
	}
	name, ok = KindOf(doc)
	return name, ok, nil
}

// Clock returns the server's time. It needs a document to read it with: ok is false
// if the collection is empty.
func (c *Collection) Clock(ctx context.Context) (now model.Time, ok bool, err error) {
	reply, err := c.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(Obj("_id", 0, NowField, "$$NOW")))
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, c.Wrap(err)
	}
	now, err = c.Now(reply)
	return now, err == nil, err
}

// DeleteIdle deletes the documents that match idle. most bounds their number; 0 is no
// bound. tried counts the documents that it found. Some of them may have been locked
// since: those no longer match, and stay.
func (c *Collection) DeleteIdle(ctx context.Context, idle bson.D, most int, collation *options.Collation) (deleted, tried int, err error) {
	if most == 0 {
		most = math.MaxInt
	}
	var ids bson.A
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		n, err := c.DeleteMany(ctx, append(Obj("_id", Obj("$in", ids)), idle...), options.DeleteMany().SetCollation(collation))
		deleted, ids = deleted+n, nil
		return c.Wrap(err)
	}
	for raw, err := range c.Scan(ctx, idle, options.Find().SetProjection(Obj("_id", 1)).SetCollation(collation)) {
		if err != nil {
			return deleted, tried, err
		}
		id := raw.Lookup("_id")
		id.Value = slices.Clone(id.Value) // the cursor reuses it
		ids = append(ids, id)
		if tried++; len(ids) == Chunk || tried == most {
			if err := flush(); err != nil || tried == most {
				return deleted, tried, err
			}
		}
	}
	return deleted, tried, flush()
}
