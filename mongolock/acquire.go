package mongolock

import (
	"context"
	"errors"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Acquire implements driver.Store.
//
// One statement decides. It is safe to repeat: if it finds the hold, it changes only the
// time of the last change. So the driver and the server may repeat it, too. The server
// acknowledges a refusal with a place like a grant, because it decides between them only
// after the command arrived. If the place cannot be written, Acquire asks again without a
// place.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	stored := q // the request as the document has it
	if s.ownLimits {
		stored.Limit = driver.LimitUnknown
	}
	asked := obj("ttl", mongokit.Millis(q.TTL))
	lock := obj(
		"_id", bson.NewObjectID(), "lockId", q.LockID,
		"owner", q.Details.Owner, "host", q.Details.Host, "comment", q.Details.Comment,
		"createdAt", nil, "renewedAt", nil, "expiresAt", nil, "acquired", true,
		"holdId", q.HoldID.String(), "token", nil, "end", nil,
		"takeoverDelay", q.TakeoverDelay.Milliseconds(), "blocksUntil", nil,
	)
	if q.Mode == driver.Shared {
		most := int64(q.Limit)
		if most == 0 {
			most = math.MaxInt32 // no document has room for so many holds
		}
		asked = append(asked, obj("limit", limitOf(&stored), "most", most)...)
		lock = append(lock, obj("limit", limitOf(&stored))...)
	}
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).
		SetProjection(seenBy(&stored)).SetCollation(exactly)
	send := func(statement statement, more bson.D) (document, error) {
		raw, err := s.update(ctx, q.Resource, statement.Of(slices.Concat(asked, more, obj("lock", lock))), opts)
		if err != nil {
			return document{}, err
		}
		return s.decode(raw)
	}
	if q.Place.IsZero() {
		d, err := send(acquires[q.Mode][0](), nil)
		if err != nil {
			return driver.Grant{}, err
		}
		return d.answer(q, false)
	}
	statement, place := acquires[q.Mode][1](), obj("place", placeOf(&stored))
	d, err := send(statement, append(place, keepOf(&q)...))
	placed := !mongokit.TooLarge(err) && !mongokit.Undecided(err)
	if !placed { // a refusal without a place writes nothing
		d, err = send(statement, append(place, obj("keep", int64(0), "fresh", int64(0))...))
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return d.answer(q, placed)
}

// answer returns the server's decision about a request. placed says that the request gets
// its place if it is refused and there is room.
func (d document) answer(q driver.AcquireRequest, placed bool) (driver.Grant, error) {
	g, err := mongokit.Answer(mongokit.Found{Record: d.record, Now: d.now, Hidden: len(d.record.Places) == mostAhead}, q)
	var held *driver.HeldError
	if errors.As(err, &held) {
		held.Waiters = d.queue.places
		switch {
		case q.Place.IsZero(), held.BySelf:
		case placed && d.queue.at >= 0:
			held.Position = d.queue.ahead
		default:
			held.Waiters = d.queue.others
		}
	}
	return g, err
}

// exactly compares texts byte by byte, whatever the collation of the collection.
var exactly = &options.Collation{Locale: "simple"}

func named(resource string) bson.D { return obj(resourceField, resource) }
