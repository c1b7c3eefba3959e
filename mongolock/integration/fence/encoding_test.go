package fence_test

import (
	"errors"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mongolock/fence"
)

// cents are written as text by a registry that knows them.
type cents int

func withCents() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[cents](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			if v.Int() == 7 {
				return w.WriteString("seven")
			}
			return w.WriteString("many")
		}))
	return r
}

// The caller's values are encoded as the collection does it, in every form.
func TestEncodedAsTheCollectionDoes(t *testing.T) {
	// On the first use of a type, the driver stores how to encode it, also for later uses
	// with other settings. So each case has a type of its own.
	type account struct {
		Balance int `json:"bal"`
		Note    string
	}
	type sparse struct {
		Balance int
		Note    string
	}
	type byName struct {
		Name string `json:"_id"`
	}
	for name, c := range map[string]struct {
		opts   *options.CollectionOptionsBuilder
		filter any
		fields any
		want   bson.M
	}{
		"JSON tags": {
			options.Collection().SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}),
			byName{"one"}, account{Balance: 3, Note: "x"}, bson.M{"bal": int32(3), "note": "x"},
		},
		"what is empty is left out": {
			options.Collection().SetBSONOptions(&options.BSONOptions{OmitEmpty: true}),
			one, sparse{Balance: 3}, bson.M{"balance": int32(3), "note": "old"},
		},
		"registry": {
			options.Collection().SetRegistry(withCents()),
			bson.M{"price": cents(7)}, bson.D{{Key: "cost", Value: cents(8)}}, bson.M{"cost": "many", "note": "old"},
		},
		"bytes": {
			options.Collection().SetBSONOptions(&options.BSONOptions{NilSliceAsEmpty: true}),
			[]byte(encode(t, one)), map[string]any{"list": []string(nil)}, bson.M{"list": bson.A{}, "note": "old"},
		},
	} {
		for form, update := range map[string]any{
			"operators": bson.D{{Key: "$set", Value: c.fields}},
			"a map":     map[string]any{"$set": c.fields},
			"a merge":   bson.M{"$set": c.fields, "$max": bson.M{"most": 1}},
			"stages":    bson.A{bson.M{"$set": c.fields}},
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				coll := documents(t, bson.E{Key: "note", Value: "old"}, bson.E{Key: "price", Value: "seven"})
				if _, err := fence.UpdateOne(t.Context(), coll.Clone(c.opts), c.filter, update, 5); err != nil {
					t.Fatal(err)
				}
				got := read(t, coll)
				c.want["_id"], c.want["n"], c.want["price"], c.want[fence.Field] = "one", int32(1), "seven", int64(5)
				delete(got, "most")
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("the document is %v, want %v", got, c.want)
				}
				err := fence.Claim(t.Context(), coll.Clone(c.opts), c.filter, 4)
				if !errors.Is(err, holdfast.ErrStale) {
					t.Errorf("a stale claim: error %v", err)
				}
			})
		}
	}
}

// A registry may change how numbers are written. It does not change tokens.
func TestTokensAreNumbers(t *testing.T) {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[int64](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, _ reflect.Value) error {
			return w.WriteString("a number")
		}))
	coll := documents(t)
	odd := coll.Clone(options.Collection().SetRegistry(r))
	for _, update := range []any{set("m", "x"), mongo.Pipeline{set("m", "x")}, bson.M{"$max": bson.M{"m": "y"}}} {
		if _, err := fence.UpdateOne(t.Context(), odd, one, update, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, coll); got[fence.Field] != int64(5) {
		t.Errorf("the document is %v", got)
	}
}

// A collection with unacknowledged writes is unfit for a fence: the fence requests an
// acknowledgement.
func TestUnacknowledged(t *testing.T) {
	coll := documents(t)
	careless := coll.Clone(options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	if err := fence.Claim(t.Context(), careless, one, 6); err != nil {
		t.Fatal(err)
	}
	if err := fence.Claim(t.Context(), careless, one, 5); !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("error %v", err)
	}
}
