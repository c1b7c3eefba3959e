package mongokit

import "go.mongodb.org/mongo-driver/v2/bson"

// Statements are built of these expressions, once, when a store is made. Values of
// callers are never part of an expression: the first stage of a statement has them,
// inside $literal, and expressions read them from there.
//
// Other servers that speak the protocol interpret some forms differently from MongoDB.
// For example, DocumentDB returns null for a $reduce that starts from null. The tests of
// the stores reject all operators and forms that are not known to mean the same
// everywhere.

// Obj makes a document of pairs of key and value. It is not inlined, because the
// functions below all call it.
//
//go:noinline
func Obj(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

// Op is an operator with any number of arguments.
func Op(name string, args ...any) bson.D { return Obj(name, bson.A(args)) }

// And is $and.
func And(args ...any) bson.D { return Op("$and", args...) }

// Or is $or.
func Or(args ...any) bson.D { return Op("$or", args...) }

// Not is $not.
func Not(arg any) bson.D { return Op("$not", arg) }

// Eq is $eq.
func Eq(a, b any) bson.D { return Op("$eq", a, b) }

// Ne is $ne.
func Ne(a, b any) bson.D { return Op("$ne", a, b) }

// Gt is $gt.
func Gt(a, b any) bson.D { return Op("$gt", a, b) }

// Gte is $gte.
func Gte(a, b any) bson.D { return Op("$gte", a, b) }

// Lt is $lt.
func Lt(a, b any) bson.D { return Op("$lt", a, b) }

// Lte is $lte.
func Lte(a, b any) bson.D { return Op("$lte", a, b) }

// Add is $add. A sum with null is null.
func Add(a, b any) bson.D { return Op("$add", a, b) }

// Cond is $cond.
func Cond(is, then, no any) bson.D { return Op("$cond", is, then, no) }

// OrElse is b if a is null or missing.
func OrElse(a, b any) bson.D { return Op("$ifNull", a, b) }

// Merge is one document with the fields of several. If fields have the same name, the
// last one counts.
func Merge(args ...any) bson.D { return Op("$mergeObjects", args...) }

// Concat joins arrays.
func Concat(args ...any) bson.D { return Op("$concatArrays", args...) }

// Size is the number of elements of an array.
func Size(of any) bson.D { return Op("$size", of) }

// Some reports whether an array has elements.
func Some(of any) bson.D { return Gt(Size(of), 0) }

// Larger is the larger of two numbers.
func Larger(a, b any) bson.D { return Op("$max", a, b) }
