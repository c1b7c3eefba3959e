// Package fence keeps stale holders of locks from writing to MongoDB documents.
//
// A holder that was stopped, or whose write was on its way for too long, may
// write after its lock has become another's. Each acquisition has a larger token
// than all before it (Hold.Token), so the document that the lock protects can
// tell: it keeps the largest token that it has seen in the field [Field], and
// these functions change it only for one that is not smaller.
//
// A new holder registers its token by [Claim] before it reads the document. What
// its predecessor sends from then on is refused. Without Claim a late write can
// slip in between the new holder's read and its write.
//
// The lock may be in any store: what matters is that its tokens rise, see
// driver.Traits.Fencing. Tokens protect what exclusive holds write. Documents are
// only as safe as the collection's write concern: what fewer than a majority have
// confirmed, a fail-over can take back.
//
// It does not know of locks, and changes no other document than the one that is
// named.
package fence

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Field is the field of a protected document that has the largest token seen. An
// update must not touch it.
const Field = "fence"

// tries bounds how often an update is sent again because the document changed
// between the update, which did not match, and the look at why.
const tries = 5

// Claim registers the token in the document that matches the filter. It returns
// holdfast.ErrStale if a larger one is there, and mongo.ErrNoDocuments if no
// document matches. It may be repeated.
func Claim(ctx context.Context, coll *mongo.Collection, filter any, token uint64) error {
	_, err := UpdateOne(ctx, coll, filter, bson.D{}, token)
	return err
}

// UpdateOne updates the document that matches the filter, which should be no more
// than one, and registers the token, in one statement. The update is one of operators ({$set: ...}), or a pipeline.
// The document stays as it is, and the error is holdfast.ErrStale, if it has seen
// a larger token; mongo.ErrNoDocuments says that none matches the filter. A token
// that is 0 or above 2^53, and an update that replaces the document or names
// Field, are holdfast.ErrInvalid; nothing was sent then.
//
// With the option Upsert, the filter must have the document's _id, for a stale
// upsert could make a second document otherwise.
//
// Any other error means that the outcome is unknown. To repeat it is safe as far
// as the update itself is.
func UpdateOne(ctx context.Context, coll *mongo.Collection, filter, update any, token uint64,
	opts ...options.Lister[options.UpdateOneOptions],
) (*mongo.UpdateResult, error) {
	if token == 0 || token > driver.MaxToken {
		return nil, invalid("%d is not a token", token)
	}
	chosen, err := document(filter)
	if err != nil {
		return nil, invalid("the filter: %v", err)
	}
	fenced, err := fencedUpdate(update, token)
	if err != nil {
		return nil, err
	}
	upserts, err := upserting(opts)
	if err != nil {
		return nil, err
	}
	if upserts && !hasID(chosen) {
		return nil, invalid("the filter of an upsert must have the document's _id")
	}
	fresh := bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: Field, Value: bson.D{{Key: "$lte", Value: int64(token)}}}},
		bson.D{{Key: Field, Value: nil}}, // or absent
	}}}
	for range tries {
		res, err := coll.UpdateOne(ctx, bson.D{{Key: "$and", Value: bson.A{chosen, fresh}}}, fenced, opts...)
		// An upsert that finds the document to be stale tries to make another one.
		if err != nil && !(upserts && mongo.IsDuplicateKeyError(err)) {
			return res, err
		}
		if err == nil && res.MatchedCount+res.UpsertedCount > 0 {
			return res, nil
		}
		if why := refused(ctx, coll, chosen, token); why != nil {
			if errors.Is(why, mongo.ErrNoDocuments) && err != nil {
				return nil, err // another unique index was in the way
			}
			return nil, why
		}
	}
	return nil, fmt.Errorf("fence: the document changed in each of %d tries", tries)
}

// refused says why an update of the document was, or nil if it would not be now.
func refused(ctx context.Context, coll *mongo.Collection, filter bson.Raw, token uint64) error {
	seen, err := coll.Clone(options.Collection().SetReadPreference(readpref.Primary())).
		FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: Field, Value: 1}})).Raw()
	if err != nil {
		return err
	}
	v := seen.Lookup(Field)
	if v.Type == 0 || v.Type == bson.TypeNull {
		return nil
	}
	last, ok := v.AsInt64OK()
	if !ok {
		return fmt.Errorf("fence: %w: field %q of the document is not a number", holdfast.ErrDamaged, Field)
	}
	if uint64(last) > token {
		return fmt.Errorf("fence: %w: the document has seen token %d, which is larger than %d", holdfast.ErrStale, last, token)
	}
	return nil
}

// fencedUpdate is the update that also registers the token.
func fencedUpdate(update any, token uint64) (any, error) {
	register := bson.D{{Key: Field, Value: int64(token)}}
	if stages, ok := pipeline(update); ok {
		return append(stages, bson.D{{Key: "$set", Value: register}}), nil
	}
	raw, err := document(update)
	if err != nil {
		return nil, invalid("the update: %v", err)
	}
	elements, err := raw.Elements()
	if err != nil {
		return nil, invalid("the update: %v", err)
	}
	operators := make(bson.D, 0, len(elements)+1)
	for _, e := range elements {
		fields, ok := e.Value().DocumentOK()
		if !ok || e.Key() == "" || e.Key()[0] != '$' {
			return nil, invalid("the update must consist of operators such as $set")
		}
		if v := fields.Lookup(Field); v.Type != 0 {
			return nil, invalid("the update names the field %q, which has the token", Field)
		}
		if e.Key() == "$max" {
			var others bson.D
			if err := bson.Unmarshal(fields, &others); err != nil {
				return nil, invalid("the update: %v", err)
			}
			register = append(others, register...)
			continue
		}
		operators = append(operators, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return append(operators, bson.E{Key: "$max", Value: register}), nil
}

// pipeline returns a copy of the update if it is one.
func pipeline(update any) (bson.A, bool) {
	var stages bson.A
	switch p := update.(type) {
	case bson.A:
		stages = append(stages, p...)
	case mongo.Pipeline:
		for _, stage := range p {
			stages = append(stages, stage)
		}
	case []bson.D:
		for _, stage := range p {
			stages = append(stages, stage)
		}
	default:
		return nil, false
	}
	return stages, true
}

func upserting(opts []options.Lister[options.UpdateOneOptions]) (bool, error) {
	var o options.UpdateOneOptions
	for _, lister := range opts {
		for _, set := range lister.List() {
			if err := set(&o); err != nil {
				return false, invalid("%v", err)
			}
		}
	}
	return o.Upsert != nil && *o.Upsert, nil
}

// hasID reports that the filter matches no more than one document: its _id is a
// value, not a condition.
func hasID(filter bson.Raw) bool {
	id := filter.Lookup("_id")
	if condition, ok := id.DocumentOK(); ok {
		first, err := condition.IndexErr(0)
		return err != nil || first.Key() == "" || first.Key()[0] != '$'
	}
	return id.Type != 0 && id.Type != bson.TypeRegex
}

// document encodes what a caller wrote as a filter or an update.
func document(v any) (bson.Raw, error) {
	if v == nil {
		return nil, mongo.ErrNilDocument
	}
	return bson.Marshal(v)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", holdfast.ErrInvalid, fmt.Sprintf(format, args...))
}
