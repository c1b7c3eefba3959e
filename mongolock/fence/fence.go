// Package fence keeps stale holders of locks from writing to MongoDB documents.
//
// A holder that was stopped, or whose write was delayed, may write after another client
// has acquired its lock. Each acquisition has a larger token than all before it
// (Hold.Token), so the document that the lock protects can refuse such a write: its field
// [Field] has the largest token that it has seen, and these functions change the document
// only if their token is not smaller.
//
// A new holder registers its token by [Claim] before it reads the document, and then
// reads it on the primary. From then on the document refuses the writes of earlier
// holders. Without Claim, a late write can come between the new holder's read and its
// write. A read from a secondary may be older than the Claim.
//
// The lock may be in any store whose tokens rise, see driver.Traits.Fencing. Tokens
// protect what exclusive holds write. Writes are acknowledged by the majority and
// journaled, whatever the settings of the collection are, because a fail-over must
// not take a token back.
//
// The package takes no locks, and changes only the document that matches the filter.
//
// # Transactions
//
// With the ctx of a transaction, the token and the update are part of the
// transaction: both take effect with the commit, and neither after an abort. Claim
// before the transaction begins, or commit before you rely on the claim. Until the
// commit the document is locked, and writes of other holders end in a write conflict,
// which is not holdfast.ErrStale. The commit needs the write concern majority, which
// is the default.
//
// # What it does not see
//
//   - Plain writes to the document, which check no token. All programs must write the
//     document with this package.
//   - Deletion. A deleted document has lost its token, and a stale upsert creates it
//     again: mark documents as deleted instead.
//   - Two writes of one holder. They have the same token, and both take effect, in the
//     order in which they arrive.
//   - Which lock a token is from. Use one lock for each document.
package fence

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Field is the field of a protected document that has the largest token seen. An
// update must not touch it.
const Field = "fence"

// tries is how often an update is sent that did not match although the query for the
// reason finds none.
const tries = 5

// Claim registers the token in the document that matches the filter. It returns
// holdfast.ErrStale if a larger one is registered, and mongo.ErrNoDocuments if no
// document matches. In both cases nothing changes. It may be repeated.
func Claim(ctx context.Context, coll *mongo.Collection, filter any, token uint64) error {
	_, err := UpdateOne(ctx, coll, filter, bson.D{}, token)
	return err
}

// UpdateOne updates the one document that matches the filter and registers the token, in
// one statement. If the document has seen a larger token, it does not change, and the
// error is holdfast.ErrStale. mongo.ErrNoDocuments means that no document matches the
// filter.
//
// Filter and update are encoded by the registry and the BSON options of the
// collection. The update has operators (a bson.D, a map or encoded BSON), or is a
// pipeline (a slice of stages). The values of operators may have any type.
//
// The error is holdfast.ErrInvalid, and nothing changes, for a token that is 0 or
// above 2^53, for an update that replaces the document or names Field, and for a
// filter that matches several documents, of which only one would be fenced. Therefore
// a filter without a value for _id costs one more round trip.
//
// With the option Upsert, the filter must have the document's _id: otherwise a stale
// upsert could create a second document.
//
// If Field of the document is not a number, the error is holdfast.ErrDamaged, and the
// document does not change. Any other error means that the outcome is unknown. UpdateOne
// may be repeated if the update itself may.
func UpdateOne(ctx context.Context, coll *mongo.Collection, filter, update any, token uint64,
	opts ...options.Lister[options.UpdateOneOptions],
) (*mongo.UpdateResult, error) {
	if token == 0 || token > driver.MaxToken {
		return nil, invalid("%d is not a token", token)
	}
	fenced, err := fencedUpdate(update, token)
	if err != nil {
		return nil, err
	}
	d, err := named(coll, filter, opts)
	if err != nil {
		return nil, err
	}
	if err := d.checkSingle(ctx); err != nil {
		return nil, err
	}
	for range tries {
		res, err := d.coll.UpdateOne(ctx, bson.D{{Key: "$and", Value: bson.A{d.filter, fresh(token)}}}, fenced, opts...)
		// An upsert that does not match because the document is stale tries to insert
		// another.
		if err != nil && !(d.upserts && mongo.IsDuplicateKeyError(err)) {
			return res, foreign.Error(ctx, err, holdfast.ErrStale)
		}
		if err == nil && res.MatchedCount+res.UpsertedCount > 0 {
			return res, nil
		}
		if why := d.refused(ctx, token); why != nil {
			if errors.Is(why, mongo.ErrNoDocuments) && err != nil {
				return nil, err // another unique index was in the way
			}
			return nil, why
		}
	}
	return nil, fmt.Errorf("fence: the document changed in each of %d tries", tries)
}

// fresh matches documents that have seen no larger token: Field is a number, null or
// absent. It does not match an array, even if an element would match.
func fresh(token uint64) bson.Raw {
	return encoded(mongokit.Obj(
		"$or", bson.A{
			mongokit.Obj(Field, mongokit.Obj("$lte", int64(token), "$ne", math.NaN())),
			mongokit.Obj(Field, nil), // or absent
		},
		Field+".0", mongokit.Obj("$exists", false),
	))
}

// encoded encodes the fence's part of a statement, so that the options and the registry
// of the collection do not change it.
func encoded(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err) // a mistake in the program
	}
	return raw
}

// target is the document that the filter names.
type target struct {
	coll    *mongo.Collection
	filter  any
	hasID   bool
	upserts bool
	opts    options.UpdateOneOptions
}

func named(coll *mongo.Collection, filter any, opts []options.Lister[options.UpdateOneOptions]) (*target, error) {
	journal := true
	filter, err := written(filter)
	if err != nil {
		return nil, invalid("the filter: %v", err)
	}
	t := &target{filter: filter, coll: coll.Clone(options.Collection().
		SetReadPreference(readpref.Primary()).
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}))}
	for _, lister := range opts {
		for _, set := range lister.List() {
			if err := set(&t.opts); err != nil {
				return nil, invalid("%v", err)
			}
		}
	}
	if fields, ok := fieldsOf(filter); ok {
		t.filter, t.hasID = fields, hasID(fields)
	}
	t.upserts = t.opts.Upsert != nil && *t.opts.Upsert
	if t.upserts && !t.hasID {
		return nil, invalid("the filter of an upsert must have the document's _id, in a bson.D or a map")
	}
	return t, nil
}

// checkSingle refuses a filter that matches several documents.
func (t *target) checkSingle(ctx context.Context) error {
	if t.hasID {
		return nil
	}
	if found, err := t.find(ctx, 2); err != nil || len(found) < 2 {
		return err
	}
	return invalid("the filter matches several documents: only one of them would be fenced")
}

// find returns the field Field of at most most documents that match the filter.
func (t *target) find(ctx context.Context, most int64) (fields []bson.RawValue, err error) {
	opts := options.Find().SetLimit(most).SetProjection(bson.D{{Key: Field, Value: 1}}).SetCollation(t.opts.Collation)
	if t.opts.Let != nil {
		opts.SetLet(t.opts.Let)
	}
	cursor, err := t.coll.Find(ctx, t.filter, opts)
	if err != nil {
		return nil, foreign.Error(ctx, err, holdfast.ErrStale)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		v := cursor.Current.Lookup(Field)
		v.Value = append([]byte(nil), v.Value...) // the cursor reuses it
		fields = append(fields, v)
	}
	return fields, foreign.Error(ctx, cursor.Err(), holdfast.ErrStale)
}

// refused returns why the document refused an update, or nil if it would accept it
// now.
func (t *target) refused(ctx context.Context, token uint64) error {
	found, err := t.find(ctx, 1)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return mongo.ErrNoDocuments
	}
	last, err := mongokit.Number(found[0])
	if err != nil {
		return fmt.Errorf("fence: %w: field %q of the document %v", holdfast.ErrDamaged, Field, err)
	}
	if last > int64(token) {
		return fmt.Errorf("fence: %w: the document has seen token %d, which is larger than %d", holdfast.ErrStale, last, token)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", holdfast.ErrInvalid, fmt.Sprintf(format, args...))
}
