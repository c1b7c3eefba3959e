package mongodoc

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
)

// The server changes a document only if the fields it uses are sound. These expressions
// accept the same fields as decode.

func missing(field any) bson.D { return eq(orElse(field, nil), nil) }

func dateOrNone(field any) bson.D {
	return or(missing(field), and(gte(field, firstDate), lte(field, lastDate)))
}

func boolOrNone(field any) bson.D {
	return or(missing(field), eq(field, false), eq(field, true))
}

// The server orders values by type, so bounds imply the type of a value.
var (
	leastObject = obj("$literal", bson.D{})
	leastArray  = obj("$literal", bson.A{})
)

func isText(field any) bson.D { return and(gt(field, ""), lt(field, leastObject)) }

func numberOrNone(field any, least, most int64) bson.D {
	return or(missing(field), and(gte(field, least), lte(field, most)))
}

func wholeOrNone(field any, least, most int64) bson.D {
	return or(missing(field), cond(
		and(gte(field, least), lte(field, most)),
		eq(field, obj("$toLong", field)), false, // it fails for values that are not numbers
	))
}

var (
	// addedSound checks the fields of a resource, held or not.
	addedSound = and(
		or(missing("$"+added), and(gte("$"+added, leastObject), lt("$"+added, leastArray))),
		wholeOrNone(ours("token"), 0, driver.MaxToken),
		wholeOrNone(ours("touched"), math.MinInt64, math.MaxInt64),
	)
	// holdSound checks a hold that Holdfast wrote, except its names.
	holdSound = and(
		dateOrNone(ours("end")),
		wholeOrNone(ours("takeoverDelay"), 0, driver.MaxTTL.Milliseconds()),
		boolOrNone(ours("released")),
	)
	namesSound = and(isText(ours("lockId")), or(missing(ours("holdId")), isText(ours("holdId"))))
)
