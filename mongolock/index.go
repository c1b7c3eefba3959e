package mongolock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// indexes returns the indexes of mongo-lock, one for queues and one for sweeps. Only the
// first one is needed for safety: without it, two clients could each create a document of
// the same resource at the same time, and both would hold it.
func indexes() []mongo.IndexModel {
	models := []mongo.IndexModel{{
		Keys: obj(resourceField, 1), Options: options.Index().SetUnique(true).SetSparse(true),
	}}
	for _, key := range []string{
		"exclusive.lockId", "exclusive.expiresAt", "shared.locks.lockId", "shared.locks.expiresAt",
	} {
		models = append(models, mongo.IndexModel{Keys: obj(key, 1)})
	}
	models = append(models, mongo.IndexModel{Keys: obj(waitersField+".lockId", 1), Options: options.Index().SetSparse(true)})
	// It has the documents of resources without holds, so renewals do not change it.
	return append(models, mongo.IndexModel{Keys: obj(touchedField, 1), Options: options.Index().SetPartialFilterExpression(free)})
}

// free matches the documents of resources without holds.
var free = obj("exclusive.acquired", false, "shared.count", 0)

// Init implements driver.Initializer. It creates missing indexes, and determines whether
// the deployment has change streams.
func (s *Store) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.ensureLayout(ctx); err != nil {
		return err
	}
	if err := s.ensureIndexes(ctx); err != nil {
		return err
	}
	return s.chooseWakeUps(ctx)
}

// ensureLayout refuses a collection with documents of another layout: programs that use
// that layout and this store would not see each other's locks.
func (s *Store) ensureLayout(ctx context.Context) error {
	name, ok, err := s.coll.Kind(ctx)
	if ok && name != "" {
		return s.coll.Unusable(fmt.Sprintf("its documents are locks of another layout: use package mongolock/compat/mongodoc, or layout=%s in the URL", name), nil)
	}
	return err
}

func (s *Store) ensureIndexes(ctx context.Context) error {
	there, err := s.coll.ListIndexes(ctx)
	if err != nil {
		return err
	}
	for _, index := range there {
		if index.Removes() && index.IsOn("lockedAt") {
			return s.coll.Unusable(fmt.Sprintf("its index %q is that of locks of another layout: use package mongolock/compat/mongodoc, or layout=ttl in the URL",
				index.Name), nil)
		}
		if index.Removes() && oursField(index.Field()) {
			return s.coll.Unusable(fmt.Sprintf("its index %q has expireAfterSeconds, so that the server deletes documents whose locks are held: "+
				"drop it", index.Name), nil)
		}
	}
	var missing []mongo.IndexModel
	for _, model := range indexes() {
		key := model.Keys.(bson.D)[0].Key
		i := slices.IndexFunc(there, func(index mongokit.Index) bool { return index.IsOn(key) })
		switch {
		case i < 0:
			missing = append(missing, model)
		case key == resourceField && !guards(there[i]):
			return s.coll.Unusable(fmt.Sprintf("its index %q is not unique for all documents with a resource, text compared byte by byte: "+
				"drop it, and the store makes one that is", there[i].Name), nil)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	switch err = s.coll.CreateIndexes(ctx, missing...); {
	case err == nil:
		return nil
	case mongo.IsDuplicateKeyError(err):
		return s.duplicates(ctx)
	case mongokit.HasCode(err, mongokit.CodeUnauthorized) && missing[0].Keys.(bson.D)[0].Key != resourceField:
		s.log.Warn("holdfast: the user has no right to create all indexes: lists and sweeps read the whole collection", "error", err)
		return nil
	case mongokit.HasCode(err, mongokit.CodeUnauthorized):
		return s.coll.Unusable("it lacks the unique index on resource, and the user has no right to create it: "+
			"let a user with that right run createIndex({resource: 1}, {unique: true, sparse: true})", err)
	case mongokit.HasCode(err, mongokit.CodeIndexOptionsConflict), mongokit.HasCode(err, mongokit.CodeIndexKeySpecsConflict):
		return s.coll.Unusable("the unique index on resource cannot be made beside an existing one: drop that", err)
	}
	return s.coll.Wrap(err)
}

// guards reports whether the index keeps a resource from having two documents. A sparse
// index does that, too.
func guards(i mongokit.Index) bool { return i.Unique && len(i.Partial) == 0 && len(i.Collation) == 0 }

// maxShown is the number of duplicates that an error lists.
const maxShown = 10

// duplicates returns an error that lists resources with more than one document.
func (s *Store) duplicates(ctx context.Context) error {
	var groups []struct {
		Resource any `bson:"_id"`
		N        int `bson:"n"`
	}
	err := s.coll.Aggregate(ctx, mongo.Pipeline{
		obj("$match", obj(resourceField, obj("$exists", true))),
		obj("$group", obj("_id", "$"+resourceField, "n", obj("$sum", 1))),
		obj("$match", obj("n", obj("$gt", 1))),
		obj("$limit", maxShown+1),
	}, &groups, options.Aggregate().SetCollation(exactly))
	if err != nil {
		return s.coll.Wrap(err)
	}
	shown := make([]string, 0, len(groups))
	for i, g := range groups {
		if i == maxShown {
			shown = append(shown, "and more")
			break
		}
		shown = append(shown, fmt.Sprintf("%#v (%d)", g.Resource, g.N))
	}
	return s.coll.Unusable("the unique index on resource cannot be made, because these have more than one document: "+
		strings.Join(shown, ", ")+": delete all but one of each", nil)
}
