package mongolock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// indexes are those of mongo-lock. Only the first one decides: without it, two
// documents of one resource could be made at once, and two could hold it.
func indexes() []mongo.IndexModel {
	models := []mongo.IndexModel{{
		Keys: obj(resourceField, 1), Options: options.Index().SetUnique(true).SetSparse(true),
	}}
	for _, key := range []string{
		"exclusive.lockId", "exclusive.expiresAt", "shared.locks.lockId", "shared.locks.expiresAt",
	} {
		models = append(models, mongo.IndexModel{Keys: obj(key, 1)})
	}
	return models
}

// Init implements driver.Initializer. It makes the indexes that are missing, and
// finds out whether the deployment has change streams.
func (s *Store) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.ensureIndexes(ctx); err != nil {
		return err
	}
	return s.chooseWakeUps(ctx)
}

func (s *Store) ensureIndexes(ctx context.Context) error {
	there, err := s.listIndexes(ctx)
	if err != nil {
		return err
	}
	var missing []mongo.IndexModel
	for _, model := range indexes() {
		key := model.Keys.(bson.D)[0].Key
		i := slices.IndexFunc(there, func(index indexThere) bool { return index.isOn(key) })
		switch {
		case i < 0:
			missing = append(missing, model)
		case key == resourceField && !there[i].guards():
			return s.unusable(fmt.Sprintf("its index %q is not unique for all documents with a resource, text compared byte by byte: "+
				"drop it, and the store makes one that is", there[i].Name), nil)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = s.coll.Indexes().CreateMany(ctx, missing)
	switch {
	case err == nil:
		return nil
	case mongo.IsDuplicateKeyError(err):
		return s.duplicates(ctx)
	case hasCode(err, codeUnauthorized):
		return s.unusable("it lacks the unique index on resource, and the user may not make it: "+
			"let somebody who may run createIndex({resource: 1}, {unique: true, sparse: true})", err)
	case hasCode(err, codeIndexOptionsConflict), hasCode(err, codeIndexKeySpecsConflict):
		return s.unusable("the unique index on resource cannot be made beside one that is there: drop that", err)
	}
	return s.wrap(err)
}

// indexThere is an index as the server lists it.
type indexThere struct {
	Name      string   `bson:"name"`
	Key       bson.Raw `bson:"key"`
	Unique    bool     `bson:"unique"`
	Partial   bson.Raw `bson:"partialFilterExpression"`
	Collation bson.Raw `bson:"collation"`
}

func (s *Store) listIndexes(ctx context.Context) ([]indexThere, error) {
	cursor, err := s.coll.Indexes().List(ctx)
	if hasCode(err, codeNamespaceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	var all []indexThere
	err = cursor.All(ctx, &all)
	return all, s.wrap(err)
}

func (i indexThere) isOn(key string) bool {
	elements, err := i.Key.Elements()
	return err == nil && len(elements) == 1 && elements[0].Key() == key
}

// guards: no resource can have a second document. A sparse index does that, too.
func (i indexThere) guards() bool { return i.Unique && len(i.Partial) == 0 && len(i.Collation) == 0 }

// maxShown is how many duplicates an error lists.
const maxShown = 10

// duplicates says which resources have more than one document.
func (s *Store) duplicates(ctx context.Context) error {
	cursor, err := s.coll.Aggregate(ctx, mongo.Pipeline{
		obj("$match", obj(resourceField, obj("$exists", true))),
		obj("$group", obj("_id", "$"+resourceField, "n", obj("$sum", 1))),
		obj("$match", obj("n", obj("$gt", 1))),
		obj("$limit", maxShown+1),
	}, options.Aggregate().SetCollation(exactly))
	if err != nil {
		return s.wrap(err)
	}
	var groups []struct {
		Resource any `bson:"_id"`
		N        int `bson:"n"`
	}
	if err := cursor.All(ctx, &groups); err != nil {
		return s.wrap(err)
	}
	shown := make([]string, 0, len(groups))
	for i, g := range groups {
		if i == maxShown {
			shown = append(shown, "and more")
			break
		}
		shown = append(shown, fmt.Sprintf("%#v (%d)", g.Resource, g.N))
	}
	return s.unusable("the unique index on resource cannot be made, for these have more than one document: "+
		strings.Join(shown, ", ")+": delete all but one of each", nil)
}

func hasCode(err error, code int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(code)
}
