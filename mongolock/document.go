package mongolock

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// seen lists the fields of a document that the store reads, and the server's clock when
// the command began.
var (
	seen           = slices.Clip(append(seenButShared, bson.E{Key: "shared", Value: 1}))
	seenWithPlaces = append(seen, bson.E{Key: waitersField, Value: 1})
	seenButShared  = slices.Clip(obj(
		"_id", 0, resourceField, 1, "exclusive", 1, fenceField, 1, touchedField, 1, mongokit.NowField, "$$NOW",
	))
)

// seenWithoutPlace lists the fields that an exclusive acquire without a place reads. They
// are encoded once, because most acquires are of that kind.
var seenWithoutPlace = sync.OnceValue(func() bson.Raw {
	raw, err := bson.Marshal(append(seen, queueSeenByOthers()))
	if err != nil {
		panic(err) // a mistake in the program
	}
	return raw
})

// seenBy returns the fields that an acquire reads. If a shared hold was granted, it reads
// only that hold, not the others, of which there may be a thousand.
func seenBy(q *driver.AcquireRequest) any {
	switch {
	case q.Mode == driver.Exclusive && q.Place.IsZero():
		return seenWithoutPlace()
	case q.Mode == driver.Exclusive:
		return append(seen, queueSeen(q))
	}
	granted := filter(orElse("$shared.locks", bson.A{}), and(
		eq(lock("holdId"), q.HoldID.String()),
		eq(lock("lockId"), obj("$literal", q.LockID)),
		ours(lock), ne(lock("released"), true),
		or(eq(orElse(lock("end"), nil), nil), gt(lock("end"), "$$NOW")),
	))
	return append(seenButShared, bson.E{Key: "shared.locks", Value: let(
		"granted", granted, cond(some("$$granted"), "$$granted", "$shared.locks"),
	)}, queueSeen(q))
}

// seenOf returns the fields that a renewal reads: the shared hold of the lock ID, and the
// number of waiters.
func seenOf(lockID string) bson.D {
	own := filter(orElse("$shared.locks", bson.A{}), eq(lock("lockId"), obj("$literal", lockID)))
	return append(seenButShared,
		bson.E{Key: "shared.locks", Value: own}, bson.E{Key: queueField + ".places", Value: size(livePlaces("$$NOW"))})
}

// document is the document of a resource in a reply.
type document struct {
	record model.Record
	now    model.Time
	queue  queue
}

// decode reads the document and the time in a reply.
func (s *Store) decode(raw bson.Raw) (document, error) {
	d, err := decode(raw)
	if err == nil {
		d.now, err = s.coll.Now(raw)
	}
	for i := range d.record.Places {
		if p := &d.record.Places[i]; p.Asked <= d.now+model.Time(skew/time.Microsecond) {
			p.Asked = min(p.Asked, d.now)
		}
	}
	if s.ownLimits { // the limit of every request is accepted
		for i := range d.record.Holds {
			h := &d.record.Holds[i]
			h.Limit = model.LimitOf(h.Mode, nil)
		}
	}
	return d, err
}

// decode reads a document. If a field that decisions depend on is invalid, the error is
// driver.ErrDamaged. An invalid owner or date of creation is left out, and the length of
// the array is the number of shared locks, even if their count differs.
func decode(raw bson.Raw) (d document, err error) {
	var resource string
	if resource, err = mongokit.Text(raw.Lookup(resourceField)); err != nil || resource == "" {
		return d, fmt.Errorf("%w: a document whose resource is not a valid name", driver.ErrDamaged)
	}
	d.record.Resource = resource
	if err = d.decode(raw); err != nil {
		return document{record: model.Record{Resource: resource}}, fmt.Errorf("%w: %q: %v", driver.ErrDamaged, resource, err)
	}
	return d, nil
}

func (d *document) decode(raw bson.Raw) error {
	fence, err := mongokit.Number(raw.Lookup(fenceField))
	if err != nil || fence < 0 || fence > driver.MaxToken {
		return fmt.Errorf("field %s is not a token", fenceField)
	}
	touched, err := mongokit.Number(raw.Lookup(touchedField))
	if err != nil {
		return fmt.Errorf("field %s is not a number", touchedField)
	}
	d.record.Token, d.record.Touched = uint64(fence), model.Time(touched)
	if err := d.decodePlaces(raw.Lookup(waitersField)); err != nil {
		return fmt.Errorf("field %s %v", waitersField, err)
	}
	if err := d.decodeQueue(raw.Lookup(queueField)); err != nil {
		return fmt.Errorf("field %s %v", waitersField, err)
	}
	exclusive, err := mongokit.Object(raw.Lookup("exclusive"))
	if err != nil {
		return fmt.Errorf("field exclusive %v", err)
	}
	if acquired := exclusive.Lookup("acquired"); !mongokit.Absent(acquired) {
		held, ok := acquired.BooleanOK()
		if !ok {
			return fmt.Errorf("field exclusive.acquired is not true or false")
		}
		if held {
			if err := d.add(exclusive, driver.Exclusive); err != nil {
				return fmt.Errorf("field exclusive: %v", err)
			}
		}
	}
	shared, err := mongokit.Object(raw.Lookup("shared"))
	if err != nil {
		return fmt.Errorf("field shared %v", err)
	}
	values, err := mongokit.Array(shared.Lookup("locks"))
	if err != nil {
		return fmt.Errorf("field shared.locks %v", err)
	}
	for i, v := range values {
		lock, ok := v.DocumentOK()
		if !ok {
			return fmt.Errorf("field shared.locks.%d is not a document", i)
		}
		if err := d.add(lock, driver.Shared); err != nil {
			return fmt.Errorf("field shared.locks.%d: %v", i, err)
		}
	}
	return nil
}

// add reads one lock.
func (d *document) add(lock bson.Raw, mode driver.Mode) error {
	h := model.Hold{Mode: mode, Limit: model.LimitOf(mode, nil)}
	var err error
	if h.LockID, err = mongokit.Text(lock.Lookup("lockId")); err != nil || h.LockID == "" {
		return fmt.Errorf("its lockId is not a valid name")
	}
	mongokit.ReadDetails(lock, &h)
	if h.End, err = endOf(lock.Lookup("expiresAt")); err != nil {
		return fmt.Errorf("its expiresAt %v", err)
	}
	end, err := endOf(lock.Lookup("end"))
	if err != nil {
		return fmt.Errorf("its end %v", err)
	}
	until, err := endOf(lock.Lookup("blocksUntil"))
	if err == nil && until == h.End && !mongokit.Absent(lock.Lookup("holdId")) {
		h.End = end
		err = added(lock, &h)
	}
	if err == nil {
		d.record.Holds = append(d.record.Holds, h)
	}
	return err
}

// added reads the fields that Holdfast added to a lock.
func added(lock bson.Raw, h *model.Hold) error {
	if err := mongokit.ReadHold(lock, h); err != nil {
		return err
	}
	if h.HoldID.IsZero() {
		return fmt.Errorf("its holdId is not 24 hex digits")
	}
	token, err := mongokit.Number(lock.Lookup("token"))
	if err != nil || token <= 0 || token > driver.MaxToken {
		return fmt.Errorf("its token is not valid")
	}
	h.Token = uint64(token)
	if limit := lock.Lookup("limit"); h.Mode == driver.Shared && !mongokit.Absent(limit) {
		n, err := mongokit.Number(limit)
		if err != nil || n < 0 {
			return fmt.Errorf("its limit is not a number of holds")
		}
		h.Limit = int(n)
	}
	return nil
}

// endOf reads an end. null means Forever.
func endOf(v bson.RawValue) (model.Time, error) {
	if mongokit.Absent(v) {
		return model.NoEnd, nil
	}
	t, ok := v.DateTimeOK()
	if !ok || t < int64(firstEnd) || t > int64(lastEnd) {
		return 0, fmt.Errorf("is not a date that an end can be")
	}
	return model.Time(t) * 1000, nil
}
