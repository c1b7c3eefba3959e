package mongolock

import (
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The document of a resource, as mongo-lock has it:
//
//	{ resource: "r1",
//	  exclusive: { _id, lockId, owner, host, comment, createdAt, renewedAt, expiresAt, acquired },
//	  shared: { count: n, locks: [ { the same fields } ] } }
//
// and the fields that Holdfast adds, which mongo-lock leaves alone or drops:
//
//	  fence:   the last granted token
//	  touched: when Holdfast last changed the document, in µs; rises with every change
//	  freed:   the touched of the last change after which a waiter may be granted the resource
//	  waiters: the queue, if there are waiters
//
//	and in each lock
//	  holdId, token
//	  limit:         of a shared hold: the largest number of holds, 0 for any number; null if unknown
//	  end:           when the hold ends, null for never
//	  takeoverDelay: in ms
//	  released:      true after a release with a delay
//	  blocksUntil:   the expiresAt that Holdfast wrote
//
// and in each of waiters, in the order in which the waiters came
//
//	placeId, lockId, owner, host
//	mode:   "exclusive" or "shared"
//	limit:  of a shared request, as for a hold
//	fair:   later requests wait for it
//	since:  when the waiter came
//	asked:  when it last asked for its place
//	until:  when the place ends unless the waiter asks again
//
// expiresAt is when the lock stops blocking: the end plus the takeover delay, unless
// it was released. An old client writes expiresAt and none of the fields above. So
// a lock whose expiresAt differs from its blocksUntil is a new hold of an old client:
// it has no hold ID, no token and no takeover delay, whatever is left in its fields.
const (
	resourceField = "resource"
	fenceField    = "fence"
	touchedField  = "touched"
	freedField    = "freed"
	waitersField  = "waiters"
)

// An end is a date between these, or null. All other values are damage.
var (
	firstEnd = bson.DateTime(0)
	lastEnd  = bson.NewDateTimeFromTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
)

// nobody is the exclusive lock of a resource without a hold.
var nobody = obj(
	"_id", nil, "lockId", nil, "owner", nil, "host", nil, "comment", nil,
	"createdAt", nil, "renewedAt", nil, "expiresAt", nil, "acquired", false,
)

// oursField reports whether the layout has the field, or a field around it.
func oursField(path string) bool {
	name, _, _ := strings.Cut(path, ".")
	return slices.Contains([]string{resourceField, "exclusive", "shared", fenceField, touchedField, freedField, waitersField}, name)
}
