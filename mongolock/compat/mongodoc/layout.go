package mongodoc

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// The document of a resource has its name as _id, the fields of the layout, which
// old programs read and write, and one field that they leave alone:
//
//	holdfast: {
//	  token:   the last one granted
//	  touched: when Holdfast last changed the document, in µs; rises with every change
//	  shown:   the fields of the layout, as Holdfast last wrote them
//
// and of a hold
//
//	  lockId, holdId, owner, host, comment, createdAt, renewedAt
//	  end:           when it ends, null for never
//	  takeoverDelay: in ms
//	  released:      true after a release with a delay
//	}
//
// The fields of the layout show old programs that the resource is held until the hold no
// longer blocks: its end plus the takeover delay, unless it was released. If they differ
// from shown, an old program has written them since. Then they alone describe its hold,
// the token of Holdfast's last hold still counts, and the rest of this field is
// meaningless.
const added = "holdfast"

// OldLockID is the lock ID of old programs' holds in a layout without a field for it.
// Holdfast's own holds cannot have it in such a layout.
const OldLockID = "old program"

// shown is a field of the layout as Holdfast last wrote it.
func shown(field string) string { return added + ".shown." + field }

// layout describes how a document shows old programs that its resource is held.
type layout struct {
	fields []string
	// lockID is the field that has the lock ID, if the layout has one.
	lockID string
	// removes means that a release deletes the document.
	removes bool
	// keeps means that a sweep deletes no idle documents: old programs need them and do
	// not create them, or a document exists only while it is held.
	keeps bool

	// Expressions on a document: whether its fields are sound, whether they show a
	// hold, live or expired, and its end and beginning if an old program wrote them.
	sound, taken, oldEnd, oldSince any
	// held are the fields that show a hold of the lock ID in tmp("lockId") until
	// tmp("until"), which is null for never; free are the fields that show no hold.
	held, free bson.D

	// read computes in Go what the expressions compute.
	read func(bson.Raw) (old, error)
	// maybe is a query for documents that may show a hold, expired a query for documents
	// whose hold may have expired by now.
	maybe   bson.D
	expired func(now bson.DateTime) bson.D
}

// old is the hold that the fields of the layout show.
type old struct {
	taken  bool
	lockID string
	since  model.Time
	end    model.Time
}

// All programs can read dates in this range, and for all of them longAgo has expired.
var (
	firstDate = bson.NewDateTimeFromTime(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	longAgo   = bson.DateTime(0)
	farOff    = bson.NewDateTimeFromTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	lastDate  = bson.NewDateTimeFromTime(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
)

// dateOf reads a date; is reports whether the field has one.
func dateOf(doc bson.Raw, field string) (t model.Time, is bool, err error) {
	v := doc.Lookup(field)
	if mongokit.Absent(v) {
		return 0, false, nil
	}
	ms, ok := v.DateTimeOK()
	if !ok || ms < int64(firstDate) || ms > int64(lastDate) {
		return 0, false, fmt.Errorf("field %s is not a date between the years 1 and 9999", field)
	}
	return model.Time(ms) * 1000, true, nil
}

const millisecond = model.Time(time.Millisecond / time.Microsecond)
