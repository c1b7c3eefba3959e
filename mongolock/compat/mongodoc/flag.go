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

// FlagOptions are the optional settings of NewFlag. The zero value has the defaults.
type FlagOptions struct {
	// Timeout is the age of lockedAt after which old programs take over a locked
	// resource: whole milliseconds, at most 2^31-1 s. It must be the same in all
	// programs. Default: DefaultTimeout.
	Timeout time.Duration
}

// NewFlag keeps locks as documents {_id: name, locked: bool, lockedAt: date}: a resource
// is held while locked is true and lockedAt is not older than the timeout. Old programs
// need the document, so the store never deletes one; the first hold of a new resource
// creates it. NewFlag sends nothing: the Client that gets the store calls Init before its
// first request. Close does not disconnect the collection's client.
func NewFlag(coll *mongo.Collection, opts *FlagOptions) *Store {
	var o FlagOptions
	if opts != nil {
		o = *opts
	}
	return newStore(coll, "flag", driver.FencingStrict, o.prepare)
}

func (o FlagOptions) prepare(context.Context, *mongokit.Collection, []mongokit.Index) (*layout, error) {
	if err := validTimeout(o.Timeout, time.Millisecond); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return flagLayout(o.Timeout), nil
}

// maxTimeout is the longest possible timeout of a TTL index.
const maxTimeout = (1<<31 - 1) * time.Second

func validTimeout(d, unit time.Duration) error {
	if d < 0 || d > maxTimeout || d%unit != 0 {
		return fmt.Errorf("%w: timeout %v is not a multiple of %v between 0 and %v", driver.ErrInvalid, d, unit, maxTimeout)
	}
	return nil
}

func flagLayout(timeout time.Duration) *layout {
	ms := timeout.Milliseconds()
	return &layout{
		fields: []string{"locked", "lockedAt"}, keeps: true,
		sound:    and(boolOrNone("$locked"), dateOrNone("$lockedAt")),
		taken:    eq("$locked", true),
		oldEnd:   add("$lockedAt", ms+1), // old programs take it only when it is older than the timeout
		oldSince: "$lockedAt",
		held: obj("locked", true, "lockedAt", cond(
			eq(tmp("newUntil"), nil), farOff, op("$subtract", tmp("newUntil"), ms))),
		// Some old programs write no date, and must not find one when they lock.
		free:  obj("locked", false, "lockedAt", nil),
		maybe: obj("locked", obj("$ne", false)),
		expired: func(now bson.DateTime) bson.D {
			return obj("locked", true, "lockedAt", obj("$lte", now-bson.DateTime(ms)))
		},
		read: func(doc bson.Raw) (o old, err error) {
			if locked := doc.Lookup("locked"); !mongokit.Absent(locked) {
				var ok bool
				if o.taken, ok = locked.BooleanOK(); !ok {
					return o, errors.New("field locked is not true or false")
				}
			}
			at, is, err := dateOf(doc, "lockedAt")
			o.lockID, o.since, o.end = OldLockID, at, model.NoEnd
			if is {
				o.end = at + model.Time(ms+1)*millisecond
			}
			return o, err
		},
	}
}
