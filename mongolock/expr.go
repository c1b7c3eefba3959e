package mongolock

import "go.mongodb.org/mongo-driver/v2/bson"

// The statements are built of these, once, when the program starts. What a
// caller chose never is a part of an expression: it comes in by the first stage
// of a statement, inside $literal, and expressions read it from there.

// obj makes a document of pairs of key and value.
func obj(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

func op(name string, args ...any) bson.D { return obj(name, bson.A(args)) }

func and(args ...any) bson.D       { return op("$and", args...) }
func or(args ...any) bson.D        { return op("$or", args...) }
func not(arg any) bson.D           { return op("$not", arg) }
func eq(a, b any) bson.D           { return op("$eq", a, b) }
func ne(a, b any) bson.D           { return op("$ne", a, b) }
func gt(a, b any) bson.D           { return op("$gt", a, b) }
func gte(a, b any) bson.D          { return op("$gte", a, b) }
func lt(a, b any) bson.D           { return op("$lt", a, b) }
func lte(a, b any) bson.D          { return op("$lte", a, b) }
func add(a, b any) bson.D          { return op("$add", a, b) }
func cond(is, then, no any) bson.D { return op("$cond", is, then, no) }
func orElse(a, b any) bson.D       { return op("$ifNull", a, b) }
func merge(args ...any) bson.D     { return op("$mergeObjects", args...) }
func concat(args ...any) bson.D    { return op("$concatArrays", args...) }
func size(of any) bson.D           { return op("$size", of) }
func some(of any) bson.D           { return gt(size(of), 0) }

// larger is the larger of two numbers.
func larger(a, b any) bson.D { return cond(gt(a, b), a, b) }

// filter and each bind every element to l, see lock.
func filter(in, when any) bson.D {
	return obj("$filter", obj("input", in, "as", "l", "cond", when))
}

func each(in, becomes any) bson.D {
	return obj("$map", obj("input", in, "as", "l", "in", becomes))
}

// first is the first element, null if there is none.
func first(of any) bson.D {
	return obj("$reduce", obj("input", of, "initialValue", nil, "in", orElse("$$value", "$$this")))
}

// lock is a field of the lock that filter and each look at.
func lock(field string) string { return "$$l." + field }
