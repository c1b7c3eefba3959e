package mongolock

import (
	"context"
	"iter"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// skew is how far the last request for a place may lie ahead of the time of a statement.
// That time is when the command began, on the clock of its router: the command may then
// have waited for one that began later and took the place. If a clock was set back by
// more, it keeps no place alive.
const skew = 5 * time.Second

// allPlaces are the elements of the queue.
func allPlaces() bson.D { return orElse("$"+waitersField, bson.A{}) }

// livePlaces returns the places that have not expired.
func livePlaces(now any) bson.D {
	return filter(allPlaces(), and(
		gte(lock("asked"), firstEnd), lte(lock("asked"), add(now, skew.Milliseconds())), gt(lock("until"), now),
	))
}

// ownPlace is the index of the request's place among the live ones, -1 if it has none. A
// place with another mode, limit or fairness is not its own: the request starts at the
// end.
func ownPlace(live any, own func(field string) any) bson.D {
	return op("$indexOfArray", each(live, and(
		eq(lock("placeId"), own("placeId")), eq(lock("mode"), own("mode")),
		eq(orElse(lock("limit"), nil), own("limit")), eq(lock("fair"), own("fair")),
	)), true)
}

// fair selects the fair places.
func fair(places any) bson.D { return filter(places, eq(lock("fair"), true)) }

// ahead are the places that a request must not overtake; at is the index of its own
// place, and others are the live places of other requests.
func ahead(live, at, others any) bson.D {
	return fair(cond(lt(at, 0), others, cond(gt(at, 0), op("$slice", live, at), bson.A{})))
}

// queues returns the last stages of a request with a place, before it is finished. The
// field queues says that it gets or keeps the place. This is the case if the request was
// refused, but not because of a hold of its own, except if its place is fresh, the queue
// is full, or the request keeps a place for no time.
func queues() mongo.Pipeline {
	return mongo.Pipeline{
		set(
			"self", some(filter(concat(tmp("exclusive"), tmp("shared")), and(
				eq(lock("lockId"), ask("lock.lockId")), live(cond(ours(lock), lock("end"), lock("expiresAt"))),
			))),
			"fresh", and(
				eq(tmp("own.lockId"), ask("place.lockId")), eq(tmp("own.owner"), ask("place.owner")), eq(tmp("own.host"), ask("place.host")),
				gte(tmp("own.until"), add(tmp("now"), ask("fresh"))), lte(tmp("own.until"), add(tmp("now"), ask("keep"))),
			),
			"place", merge(ask("place"), obj(
				"since", orElse(tmp("own.since"), tmp("now")), "asked", tmp("now"), "until", add(tmp("now"), ask("keep")),
			)),
		),
		set("queues", and(
			tmp("sound"), gt(ask("keep"), 0), not(or(tmp("granted"), tmp("repeated"), tmp("self"), tmp("fresh"))),
			or(gte(tmp("at"), 0), lt(size(tmp("others")), driver.MaxPlaces)),
		)),
	}
}

// queueKept is the queue after a request with a place.
func queueKept() bson.D {
	return cond(tmp("granted"), tmp("others"), cond(
		tmp("queues"), cond(
			gte(tmp("at"), 0),
			each(tmp("waiters"), cond(eq(lock("placeId"), ask("place.placeId")), tmp("place"), "$$l")),
			concat(tmp("others"), bson.A{tmp("place")}),
		),
		"$"+waitersField,
	))
}

// placeOf is the place of a request, without its times.
func placeOf(q *driver.AcquireRequest) bson.D {
	return obj(
		"placeId", q.Place.String(), "lockId", q.LockID, "mode", q.Mode.String(), "limit", limitOf(q),
		"owner", driver.CutPlaceName(q.Details.Owner), "host", driver.CutPlaceName(q.Details.Host), "fair", q.Fair,
	)
}

// limitOf is the limit of the request that its hold or its place keeps, or null.
func limitOf(q *driver.AcquireRequest) any {
	if q.Mode == driver.Shared && q.Limit != driver.LimitUnknown {
		return int64(q.Limit)
	}
	return nil
}

// keepOf has the time for which a request keeps its place, and the time left from which
// on a place is fresh and is not written again, in ms.
func keepOf(q *driver.AcquireRequest) bson.D {
	keep := q.PlaceTTL()
	return obj("keep", keep.Milliseconds(), "fresh", (keep - keep/4).Milliseconds())
}

// mostAhead is the number of places ahead that a refusal describes.
const mostAhead = 4

// queueSeen is the part of the queue that an acquire reads: the number of places, the
// number of others' places and of those ahead, the first places ahead, and the index of
// its own.
func queueSeen(q *driver.AcquireRequest) bson.E {
	if q.Place.IsZero() {
		return queueSeenByOthers()
	}
	live := "$$live"
	own := map[string]any{"placeId": q.Place.String(), "mode": q.Mode.String(), "limit": limitOf(q), "fair": q.Fair}
	others := filter(live, ne(lock("placeId"), own["placeId"]))
	return bson.E{Key: queueField, Value: let("live", livePlaces("$$NOW"),
		let("at", ownPlace(live, func(field string) any { return own[field] }),
			let("ahead", ahead(live, "$$at", others), obj(
				"places", size(live), "others", size(others), "at", "$$at", "ahead", size("$$ahead"), "first", op("$slice", "$$ahead", mostAhead),
			)),
		),
	)}
}

// queueSeenByOthers is queueSeen for requests without a place.
var queueSeenByOthers = sync.OnceValue(func() bson.E {
	return bson.E{Key: queueField, Value: let("live", livePlaces("$$NOW"), obj(
		"places", size("$$live"), "first", op("$slice", fair("$$live"), mostAhead),
	))}
})

// queueField is the field in which projections return the part of the queue that is read.
const queueField = "queue"

// queue is the part of a queue in a reply.
type queue struct {
	places, others, ahead int

	at int64 // the index of the request's place, or driver.NoPlace
}

func (d *document) decodeQueue(v bson.RawValue) error {
	d.queue.at = driver.NoPlace
	seen, err := mongokit.Object(v)
	if err != nil || seen == nil {
		return err
	}
	places, _ := seen.Lookup("places").AsInt64OK()
	others, _ := seen.Lookup("others").AsInt64OK()
	ahead, _ := seen.Lookup("ahead").AsInt64OK()
	d.queue.places, d.queue.others, d.queue.ahead = int(places), int(others), int(ahead)
	if at, ok := seen.Lookup("at").AsInt64OK(); ok {
		d.queue.at = at
	}
	return d.decodePlaces(seen.Lookup("first"))
}

// decodePlaces reads the places. It leaves out the places that statements drop.
func (d *document) decodePlaces(v bson.RawValue) error {
	values, err := mongokit.Array(v)
	if err != nil {
		return err
	}
	for _, v := range values {
		if place, ok := v.DocumentOK(); ok {
			if p, ok := decodePlace(place); ok {
				d.record.Places = append(d.record.Places, p)
			}
		}
	}
	return nil
}

// decodePlace reads a place. ok is false if it is invalid.
func decodePlace(place bson.Raw) (p model.Place, ok bool) {
	if asked, ok := place.Lookup("asked").DateTimeOK(); !ok || asked < int64(firstEnd) {
		return p, false
	}
	id, err := mongokit.Text(place.Lookup("placeId"))
	if err != nil || p.ID.UnmarshalText([]byte(id)) != nil || p.ID.IsZero() {
		return p, false
	}
	if p.LockID, err = mongokit.Text(place.Lookup("lockId")); err != nil || p.LockID == "" {
		return p, false
	}
	if mode, _ := mongokit.Text(place.Lookup("mode")); mode == driver.Shared.String() {
		p.Mode, p.Limit = driver.Shared, driver.LimitUnknown
		if limit := place.Lookup("limit"); !mongokit.Absent(limit) {
			n, _ := mongokit.Number(limit)
			p.Limit = int(n)
		}
	}
	p.Owner, _ = mongokit.Text(place.Lookup("owner"))
	p.Host, _ = mongokit.Text(place.Lookup("host"))
	p.Fair, _ = place.Lookup("fair").BooleanOK()
	p.Since, p.Asked, p.Until = mongokit.Moment(place.Lookup("since")), mongokit.Moment(place.Lookup("asked")), mongokit.Moment(place.Lookup("until"))
	return p, true
}

// Waiters implements driver.Queue, as List does. The query uses the index on the resource
// or the index on the lock IDs of waiters.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	query := someWait
	if f.LockID != "" {
		query = obj(waitersField+".lockId", f.LockID)
	}
	if f.Resource != "" {
		query = append(named(f.Resource), query...)
	}
	return model.Each(ctx, s.scan(ctx, query, seenWithPlaces), func(d document) []driver.Place {
		return model.Places(d.record, d.now, f)
	})
}

// someWait matches documents with waiters.
var someWait = obj(waitersField+".lockId", obj("$gt", ""))

// queued matches the document of the resource if it may have waiters, and changes
// nothing.
func queued(resource string) mongo.WriteModel {
	return mongo.NewUpdateOneModel().SetCollation(exactly).
		SetFilter(append(named(resource), someWait...)).
		SetUpdate(mongo.Pipeline{obj("$unset", mongokit.Scratch)})
}
