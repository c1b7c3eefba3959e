package mongodoc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// NewValue keeps locks as documents {_id: name, value: lock ID, ttl: seconds,
// obtained_at: date}, as the npm package distributed-locks-mongodb does: the
// resource is held until ttl seconds after obtained_at. NewValue sends nothing: the
// Client that gets the store calls Init before its first request. Close does not
// disconnect the collection's client.
func NewValue(coll *mongo.Collection) *Store {
	return newStore(coll, "value", driver.FencingClock,
		func(context.Context, *mongokit.Collection, []mongokit.Index) (*layout, error) {
			return valueLayout, nil
		})
}

// maxSeconds is larger than any ttl: 3,000 years.
const maxSeconds = 100_000_000_000

// An old program takes over a lock that it has read as expired if value and obtained_at
// have not changed since. So a hold must never have the obtained_at of an expired hold
// with the same value. That cannot happen: obtained_at + ttl is the end of the hold, and
// ttl is at most the time until then, so obtained_at is not before the grant of the hold,
// when the other hold had expired. The end changes only while the hold is live, when no
// program can have read it as expired.
var valueLayout = &layout{
	fields: []string{"value", "ttl", "obtained_at"}, lockID: "value",
	sound: cond(missing("$value"),
		and(missing("$ttl"), missing("$obtained_at")),
		and(
			isText("$value"), dateOrNone("$obtained_at"),
			numberOrNone("$ttl", -maxSeconds, maxSeconds),
		),
	),
	taken: not(missing("$value")),
	// Old programs take it only after that time.
	oldEnd:   add(add("$obtained_at", op("$multiply", "$ttl", 1000)), 1),
	oldSince: "$obtained_at",
	held: obj(
		"value", tmp("newLockId"),
		"ttl", cond(eq(tmp("newUntil"), nil), int64(0), ask("seconds")),
		"obtained_at", cond(eq(tmp("newUntil"), nil), farOff,
			op("$subtract", tmp("newUntil"), op("$multiply", ask("seconds"), 1000))),
	),
	// The document stays, because the next token must be above the last one.
	free:  obj("value", "$value", "ttl", int64(0), "obtained_at", longAgo),
	maybe: obj("obtained_at", obj("$ne", longAgo)),
	expired: func(now bson.DateTime) bson.D {
		return obj("obtained_at", obj("$gt", longAgo, "$lte", now))
	},
	read: readValue,
}

func readValue(doc bson.Raw) (o old, err error) {
	at, dated, err := dateOf(doc, "obtained_at")
	if err != nil {
		return o, err
	}
	ttl := doc.Lookup("ttl")
	if mongokit.Absent(doc.Lookup("value")) {
		if dated || !mongokit.Absent(ttl) {
			return o, errors.New("field value is missing")
		}
		return o, nil
	}
	o = old{taken: true, since: at, end: model.NoEnd}
	if o.lockID, err = mongokit.Text(doc.Lookup("value")); err != nil || o.lockID == "" {
		return o, errors.New("field value is not a text, or empty")
	}
	if mongokit.Absent(ttl) {
		return o, nil
	}
	seconds, ok := ttl.AsFloat64OK()
	if !ok || !(seconds >= -maxSeconds && seconds <= maxSeconds) {
		return o, fmt.Errorf("field ttl is not a number of seconds")
	}
	if dated {
		o.end = at + model.Time(seconds*1e6) + millisecond
	}
	return o, nil
}

// wholeSeconds returns the field ttl for a time to live.
func wholeSeconds(d time.Duration) int64 {
	if d == driver.Forever {
		return 0
	}
	return int64(d / time.Second)
}
