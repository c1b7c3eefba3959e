package mongodoc

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// DefaultTimeout is how long the hold of an old program lives in layouts without a field
// for it.
const DefaultTimeout = 30 * time.Second

// TTLOptions are the optional settings of NewTTL. The zero value has the defaults.
type TTLOptions struct {
	// Timeout is the expireAfterSeconds of the collection's TTL index on lockedAt: whole
	// seconds, at most 2^31-1. Init refuses a collection whose index has another value. 0
	// means the value of the index, or DefaultTimeout if there is no index.
	Timeout time.Duration
	// MakeIndex makes Init create the index if it is missing. Without the index, holds of
	// old programs have no end, and expired holds block old programs until a sweep.
	MakeIndex bool
}

// NewTTL keeps locks as documents {_id: name, lockedAt: date}: a resource is held while
// its document exists, and a TTL index removes the document some time after lockedAt.
// NewTTL sends nothing: the Client that gets the store calls Init before its first
// request. Close does not disconnect the collection's client.
func NewTTL(coll *mongo.Collection, opts *TTLOptions) *Store {
	var o TTLOptions
	if opts != nil {
		o = *opts
	}
	return newStore(coll, "ttl", driver.FencingClock, o.prepare)
}

// ttlLayout is the layout of a collection without a TTL index, or with one that removes
// documents after the timeout.
func ttlLayout(timeout time.Duration, indexed bool) *layout {
	ms := timeout.Milliseconds()
	l := &layout{
		fields: []string{"lockedAt"}, removes: true, keeps: true,
		sound: dateOrNone("$lockedAt"), taken: true,
		oldEnd: nil, oldSince: "$lockedAt",
		held: obj("lockedAt", cond(
			eq(tmp("newUntil"), nil), farOff, op("$subtract", tmp("newUntil"), ms))),
		free: obj("lockedAt", longAgo),
		expired: func(now bson.DateTime) bson.D {
			return obj("lockedAt", obj("$lte", now-bson.DateTime(ms)))
		},
	}
	if indexed {
		l.oldEnd = add("$lockedAt", ms) // when the index may remove it
	}
	l.read = func(doc bson.Raw) (old, error) {
		at, is, err := dateOf(doc, "lockedAt")
		o := old{taken: true, lockID: OldLockID, since: at, end: model.NoEnd}
		if is && indexed {
			o.end = at + model.Time(ms)*millisecond
		}
		return o, err
	}
	return l
}
