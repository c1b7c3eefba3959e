package mongodoc

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// List implements driver.Store. It reads holds with a cursor. The query for a resource
// uses the index on _id; for all other filters the server reads all documents. List
// yields the error of a damaged document last.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		st, err := s.begin(ctx)
		if err != nil {
			yield(driver.Status{}, err)
			return
		}
		var damage error
		for raw, err := range s.coll.Scan(ctx, st.query(f), options.Find().SetProjection(st.seen())) {
			if err != nil {
				yield(driver.Status{}, err)
				return
			}
			found := s.decode(st, raw)
			if found.Err != nil && damage == nil {
				damage = found.Err
			}
			for _, status := range model.Statuses(found.Record, found.Now, f) {
				if !yield(status, nil) {
					return
				}
			}
		}
		if damage != nil {
			yield(driver.Status{}, damage)
		}
	}
}

// query matches all documents with holds that the filter may choose. A document whose _id
// is not a string is not the document of a resource.
func (st *statements) query(f driver.Filter) bson.D {
	q := named(f.Resource)
	if f.Resource == "" {
		q = append(obj("_id", obj("$gt", "")), st.maybe...)
	}
	switch {
	case f.LockID == "":
	case st.lockID != "":
		q = append(q, obj(st.lockID, f.LockID)...)
	case f.LockID != OldLockID: // OldLockID is in no document
		q = append(q, obj(added+".lockId", f.LockID)...)
	}
	if f.Owner != "" {
		q = append(q, obj(added+".owner", f.Owner)...)
	}
	return q
}
