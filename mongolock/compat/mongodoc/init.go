package mongodoc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Init implements driver.Initializer. It checks the indexes of the collection, and
// creates the TTL index if TTLOptions.MakeIndex is set.
func (s *Store) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	indexes, err := s.coll.ListIndexes(ctx)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if index.IsOn("_id") && len(index.Collation) != 0 {
			return s.coll.Unusable("its collation treats different names as the same: "+
				"keep locks in a collection that has none", nil)
		}
	}
	if err := s.ensureLayout(ctx); err != nil {
		return err
	}
	l, err := s.prepare(ctx, s.coll, indexes)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if index.Removes() && l.has(index.Field()) && !(l.removes && index.IsOn("lockedAt")) {
			return s.coll.Unusable(fmt.Sprintf("its index %q has expireAfterSeconds, so that the server deletes documents whose locks are held: "+
				"drop it, or use the layout that it is for", index.Name), nil)
		}
	}
	s.ready.Store(newStatements(l))
	return nil
}

// ensureLayout refuses a collection with documents of another layout.
func (s *Store) ensureLayout(ctx context.Context) error {
	switch name, ok, err := s.coll.Kind(ctx); {
	case err != nil || !ok || name == s.kind:
		return err
	case name == "":
		return s.coll.Unusable("its documents are those of package mongolock: use that, or a URL without layout", nil)
	default:
		return s.coll.Unusable(fmt.Sprintf("its documents are locks of another layout, %q in a URL, and not of %q", name, s.kind), nil)
	}
}

// has reports whether path is or contains a field of the layout, or Holdfast's field.
func (l *layout) has(path string) bool {
	name, _, _ := strings.Cut(path, ".")
	return name == added || slices.Contains(l.fields, name)
}

// prepare finds or creates the index, and determines the timeout.
func (o TTLOptions) prepare(ctx context.Context, coll *mongokit.Collection, indexes []mongokit.Index) (*layout, error) {
	if err := validTimeout(o.Timeout, time.Second); err != nil {
		return nil, err
	}
	for _, index := range indexes {
		if !index.IsOn("lockedAt") {
			continue
		}
		seconds, err := mongokit.Number(index.Expire)
		switch {
		case mongokit.Absent(index.Expire):
			return nil, coll.Unusable(fmt.Sprintf("its index %q on lockedAt removes nothing: drop it, or give it "+
				"expireAfterSeconds", index.Name), nil)
		case err != nil || seconds < 0 || time.Duration(seconds) > maxTimeout/time.Second:
			return nil, coll.Unusable(fmt.Sprintf("the expireAfterSeconds of its index %q is not a number of seconds", index.Name), nil)
		case len(index.Partial) != 0:
			return nil, coll.Unusable(fmt.Sprintf("its index %q does not remove all documents: drop it, "+
				"and make one without partialFilterExpression", index.Name), nil)
		}
		timeout := time.Duration(seconds) * time.Second
		if o.Timeout != 0 && o.Timeout != timeout {
			return nil, coll.Unusable(fmt.Sprintf("its index %q removes documents after %v, the timeout that was set is %v: "+
				"one must be changed", index.Name, timeout, o.Timeout), nil)
		}
		return ttlLayout(timeout, true), nil
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MakeIndex {
		if err := makeIndex(ctx, coll, o.Timeout); err != nil {
			return nil, err
		}
	}
	return ttlLayout(o.Timeout, o.MakeIndex), nil
}

func makeIndex(ctx context.Context, coll *mongokit.Collection, timeout time.Duration) error {
	seconds := int32(timeout / time.Second)
	err := coll.CreateIndexes(ctx, mongo.IndexModel{
		Keys: obj("lockedAt", 1), Options: options.Index().SetExpireAfterSeconds(seconds),
	})
	switch {
	case mongokit.HasCode(err, mongokit.CodeUnauthorized):
		return coll.Unusable(fmt.Sprintf("it lacks the TTL index, and the user has no right to create it: let a user with that right run "+
			"createIndex({lockedAt: 1}, {expireAfterSeconds: %d})", seconds), err)
	case mongokit.HasCode(err, mongokit.CodeIndexOptionsConflict), mongokit.HasCode(err, mongokit.CodeIndexKeySpecsConflict):
		return coll.Unusable("another client made another index on lockedAt at the same moment: start again", err)
	}
	return coll.Wrap(err)
}
