package mongolock

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// List implements driver.Store. It reads holds with a cursor. The query uses the index on
// the resource or the indexes on the lock ID. If the locks of a document have no lock ID,
// only a query for the resource finds it.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return model.Each(ctx, s.scan(ctx, query(f), seen), func(d document) []driver.Status {
		return model.Statuses(d.record, d.now, f)
	})
}

// scan yields the matching documents, damaged ones with an error and their resource. It
// ends after any other error.
func (s *Store) scan(ctx context.Context, query, fields bson.D) iter.Seq2[document, error] {
	return func(yield func(document, error) bool) {
		for raw, err := range s.coll.Scan(ctx, query, options.Find().SetProjection(fields).SetCollation(exactly)) {
			var d document
			if err == nil {
				d, err = s.decode(raw)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// query matches all documents with holds that the filter may choose. It has the
// conditions of the filter that do not depend on the time.
func query(f driver.Filter) bson.D {
	var q, fields bson.D // of a document, and of each lock
	if f.Resource != "" {
		q = named(f.Resource)
	} else {
		// A lock with a lock ID is a hold, so the index on the lock ID has all holds.
		fields = obj("lockId", obj("$gt", ""))
	}
	if f.LockID != "" {
		fields = obj("lockId", f.LockID)
	}
	if f.Owner != "" {
		fields = append(fields, obj("owner", f.Owner)...)
	}
	created := bson.D{}
	if !f.CreatedBefore.IsZero() {
		created = append(created, obj("$lt", f.CreatedBefore)...)
	}
	if !f.CreatedAfter.IsZero() {
		created = append(created, obj("$gte", f.CreatedAfter)...) // if in the same ms, Filter.Match decides
	}
	if len(created) > 0 {
		fields = append(fields, obj("createdAt", created)...)
	}
	if len(fields) == 0 {
		return q
	}
	exclusive := bson.D{}
	for _, field := range fields {
		exclusive = append(exclusive, obj("exclusive."+field.Key, field.Value)...)
	}
	return append(q, obj("$or", bson.A{
		exclusive, obj("shared.locks", obj("$elemMatch", fields)),
	})...)
}
