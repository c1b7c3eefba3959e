package mongolock

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Short names for the expressions of package mongokit.
var (
	tmp, ask, set, finish     = mongokit.Tmp, mongokit.Ask, mongokit.Set, mongokit.Finish
	obj, op                   = mongokit.Obj, mongokit.Op
	and, or, not              = mongokit.And, mongokit.Or, mongokit.Not
	eq, ne, gt, gte, lt, lte  = mongokit.Eq, mongokit.Ne, mongokit.Gt, mongokit.Gte, mongokit.Lt, mongokit.Lte
	add, cond, orElse, larger = mongokit.Add, mongokit.Cond, mongokit.OrElse, mongokit.Larger
	merge, concat, size, some = mongokit.Merge, mongokit.Concat, mongokit.Size, mongokit.Some
)

// least and most are the smallest and the largest value of an array, in the order of all
// types. They ignore null, and are null if the array has no other value.
func least(of any) bson.D { return obj("$min", of) }
func most(of any) bson.D  { return obj("$max", of) }

// filter and each bind every element to the variable l, see lock.
func filter(in, when any) bson.D {
	return obj("$filter", obj("input", in, "as", "l", "cond", when))
}

func each(in, becomes any) bson.D {
	return obj("$map", obj("input", in, "as", "l", "in", becomes))
}

// let binds a variable for an expression.
func let(name string, value, in any) bson.D {
	return obj("$let", obj("vars", obj(name, value), "in", in))
}

// lock is a field of the variable that filter and each bind.
func lock(field string) string { return "$$l." + field }
