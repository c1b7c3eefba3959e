package mongodoc

import "github.com/holdfast-go/holdfast/internal/mongokit"

// Short names for the expressions of package mongokit.
var (
	obj, op                  = mongokit.Obj, mongokit.Op
	tmp, ask, set, finish    = mongokit.Tmp, mongokit.Ask, mongokit.Set, mongokit.Finish
	and, or, not             = mongokit.And, mongokit.Or, mongokit.Not
	eq, ne, gt, gte, lt, lte = mongokit.Eq, mongokit.Ne, mongokit.Gt, mongokit.Gte, mongokit.Lt, mongokit.Lte
	add, cond, orElse        = mongokit.Add, mongokit.Cond, mongokit.OrElse
	merge, larger            = mongokit.Merge, mongokit.Larger
)
