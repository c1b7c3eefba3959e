package mongokit

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Index is an index as the server lists it.
type Index struct {
	Name      string        `bson:"name"`
	Key       bson.Raw      `bson:"key"`
	Unique    bool          `bson:"unique"`
	Partial   bson.Raw      `bson:"partialFilterExpression"`
	Collation bson.Raw      `bson:"collation"`
	Expire    bson.RawValue `bson:"expireAfterSeconds"`
}

// IsOn reports whether the index is on this field alone.
func (i Index) IsOn(key string) bool {
	elements, err := i.Key.Elements()
	return err == nil && len(elements) == 1 && elements[0].Key() == key
}

// Removes reports whether the index lets the server remove documents.
func (i Index) Removes() bool { return !Absent(i.Expire) }

// Field returns the first field of the index.
func (i Index) Field() string {
	first, err := i.Key.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// ListIndexes returns the indexes of the collection, or none if it does not exist yet.
func (c *Collection) ListIndexes(ctx context.Context) ([]Index, error) {
	all, err := send(ctx, func(ctx context.Context) (all []Index, err error) {
		cursor, err := c.coll.Indexes().List(ctx)
		if err != nil {
			return nil, err
		}
		err = cursor.All(ctx, &all)
		return all, err
	})
	if HasCode(err, CodeNamespaceNotFound) {
		return nil, nil
	}
	return all, c.Wrap(err)
}
