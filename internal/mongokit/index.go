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

// IsOn reports whether the index is on that field alone.
func (i Index) IsOn(key string) bool {
	elements, err := i.Key.Elements()
	return err == nil && len(elements) == 1 && elements[0].Key() == key
}

// Removes reports whether the index lets the server remove documents.
func (i Index) Removes() bool { return !Absent(i.Expire) }

// Field is the first field of the index.
func (i Index) Field() string {
	first, err := i.Key.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// ListIndexes returns those of the collection, none if that is not there yet.
func (c *Collection) ListIndexes(ctx context.Context) ([]Index, error) {
	cursor, err := c.coll.Indexes().List(alone(ctx))
	if HasCode(err, CodeNamespaceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.Wrap(err)
	}
	var all []Index
	err = cursor.All(alone(ctx), &all)
	return all, c.Wrap(err)
}
