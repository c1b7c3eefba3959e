package mongolock

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// One statement renews or releases many locks of a document: if each lock had its own
// statement, each statement would read all locks. The request has the list refs and the
// list lockIds, in which no lock ID occurs twice.
//
// The locks that the request names become hits:
//
//	{ lock, ask, ours, end, delay, released, live, asked }
//
// with the lock as it is, its request, and values computed from them. Only hits that may
// stay have more than the first three fields.
func hits(more ...any) bson.D {
	return filter(each(
		filter(concat(tmp("exclusive"), tmp("shared")), op("$in", lock("lockId"), ask("lockIds"))),
		obj(append([]any{
			"lock", "$$l",
			"ask", op("$arrayElemAt", ask("refs"), op("$indexOfArray", ask("lockIds"), lock("lockId"))),
			"ours", ours(lock),
		}, more...)...),
	), matchesRef())
}

// stayingHits returns the stages that find hits that may stay.
func stayingHits() mongo.Pipeline {
	return mongo.Pipeline{
		set("hits", hits(
			"end", orElse(cond(ours(lock), lock("end"), lock("expiresAt")), nil),
			"delay", cond(ours(lock), orElse(lock("takeoverDelay"), int64(0)), int64(0)),
			"released", and(ours(lock), eq(lock("released"), true)),
		)),
		set("hits", each(tmp("hits"), merge("$$l", obj(
			"live", or(eq(hit("end"), nil), gt(hit("end"), tmp("now"))),
			"asked", add(tmp("now"), hit("ask.after")),
		)))),
	}
}

// hit is a field of the hit that filter and each bind.
func hit(field string) string { return lock(field) }

// matchesRef says that the ref of the request matches the lock: see driver.HoldRef.
func matchesRef() bson.D {
	return or(
		and(eq(hit("ask.holdId"), ""), eq(hit("ask.token"), 0)),
		and(
			hit("ours"),
			or(eq(hit("ask.holdId"), ""), eq(hit("lock.holdId"), hit("ask.holdId"))),
			or(eq(hit("ask.token"), 0), eq(hit("lock.token"), hit("ask.token"))),
		),
	)
}

// renewMany extends holds. The document changes if, and only if, one is extended.
var renewMany = sync.OnceValue(func() statement {
	return newStatement(nil, stayingHits(),
		mongo.Pipeline{
			set("hits", each(
				filter(tmp("hits"), and(hit("live"), not(hit("released")))),
				merge("$$l", obj("becomes", cond(
					and(ne(hit("asked"), nil), not(ask("exact")), or(eq(hit("end"), nil), gt(hit("end"), hit("asked")))),
					hit("end"), hit("asked"),
				))),
			)),
			set(rewrites(tmp("hits"), rewritten(add(hit("becomes"), hit("delay")), "renewedAt", tmp("now")))...),
		},
		changeHits(tmp("hits"), rewrite(tmp("exclusive")), rewrite(tmp("shared")), waitersField, tmp("waiters")),
	)
})

// releases has the statements that release holds, by [places][later]. With places, a
// statement takes the places in the request's list places out of the queue. Without
// later, no hold lives on. The document changes if, and only if, it has one of the holds
// or places.
var releases = [2][2]func() statement{
	{releasing(false, false), releasing(false, true)},
	{releasing(true, false), releasing(true, true)},
}

func releasing(places, later bool) func() statement {
	return sync.OnceValue(func() statement { return release(places, later) })
}

func release(places, later bool) statement {
	// Some releases apply only to expired holds.
	past := and(gte(hit("lock.expiresAt"), firstEnd), lte(hit("lock.expiresAt"), tmp("now")))
	stages := mongo.Pipeline{set("gone", each(filter(hits(), or(not(ask("onlyExpired")), past)), hit("lock")))}
	changes := any(tmp("gone"))
	if later {
		stages = append(stayingHits(),
			set("hits", each(tmp("hits"), merge("$$l", obj(
				"goes", or(eq(hit("ask.after"), 0), not(hit("live"))),
				"becomes", cond(or(eq(hit("end"), nil), gt(hit("end"), hit("asked"))), hit("asked"), hit("end")),
			)))),
			set(append(
				rewrites(filter(tmp("hits"), not(hit("goes"))), rewritten(hit("becomes"), "released", true)),
				"gone", each(filter(tmp("hits"), hit("goes")), hit("lock")),
			)...),
		)
		changes = tmp("hits")
	}
	left := func(locks string) bson.D {
		left := filter(tmp(locks), not(op("$in", "$$l", tmp("gone"))))
		if later {
			left = rewrite(left)
		}
		return left
	}
	if !places {
		// Places that no longer count stay. The next acquire drops them.
		change := changeHits(changes, left("exclusive"), left("shared"), freedField, touchedBy(changes))
		return statementOn(locks(), nil, []mongo.Pipeline{stages, change})
	}
	// The end of a place lets no waiter in while an exclusive hold blocks.
	frees := or(some(changes), and(some(fair(tmp("leave"))), not(some(filter(tmp("exclusive"), not(expired()))))))
	named := op("$in", lock("placeId"), ask("places"))
	all := concat(changes, tmp("leave"))
	return newStatement([]any{"leave", filter(allPlaces(), named), "others", filter(tmp("waiters"), not(named))}, stages,
		changeHits(all, left("exclusive"), left("shared"),
			waitersField, tmp("others"), freedField, cond(frees, touchedBy(all), "$"+freedField)))
}

// rewritten is the lock of a hit with another end. A lock of an old client loses the
// fields left over from an earlier hold, because refs to that hold would match again.
func rewritten(until any, more ...any) bson.D {
	return merge(hit("lock"), obj(append([]any{
		"expiresAt", until, "end", hit("becomes"), "blocksUntil", until, "takeoverDelay", hit("delay"),
		"holdId", cond(hit("ours"), hit("lock.holdId"), nil), "token", cond(hit("ours"), hit("lock.token"), nil),
		"limit", cond(hit("ours"), orElse(hit("lock.limit"), nil), nil),
	}, more...)...))
}

// rewrites are the pairs of set that rewrite needs: the locks of these hits before and
// after the change.
func rewrites(hits, becomes any) []any {
	return []any{"before", each(hits, hit("lock")), "after", each(hits, becomes)}
}

// rewrite replaces the locks in rewrites.
func rewrite(locks any) bson.D {
	return each(locks, cond(
		op("$in", "$$l", tmp("before")),
		op("$arrayElemAt", tmp("after"), op("$indexOfArray", tmp("before"), "$$l")),
		"$$l",
	))
}

// touchedBy is the field touched after this number of changes in a row.
func touchedBy(changes any) bson.D {
	return op("$add", tmp("touched"), size(changes), int64(-1))
}

// changeHits returns the last stages. If there are changes, only the given locks are
// left.
func changeHits(changes, exclusive, shared any, pairs ...any) mongo.Pipeline {
	return append(mongo.Pipeline{set(
		"changes", and(tmp("sound"), some(changes)), "exclusiveLeft", exclusive, "sharedLeft", shared,
	)}, finish(tmp("changes"), append([]any{
		"exclusive", cond(some(tmp("exclusive")), orElse(op("$arrayElemAt", tmp("exclusiveLeft"), 0), obj("$literal", nobody)), "$exclusive"),
		"shared", sharedAs(tmp("sharedLeft")), touchedField, touchedBy(changes),
	}, pairs...)...)...)
}

// renewal returns the update that renews holds of one resource.
func (s *Store) renewal(qs []driver.RenewRequest) mongokit.Pipeline {
	ask := newRefList(len(qs))
	for _, q := range qs {
		ask.add(q.HoldRef, obj("after", mongokit.Millis(q.TTL)))
	}
	return renewMany().Of(obj("lockIds", ask.lockIDs, "refs", ask.refs, "exact", s.exactRenewals))
}

// ending returns the update that releases holds of one resource and gives up places. See
// mongokit.OnlyExpired.
func ending(qs []driver.ReleaseRequest, onlyExpired bool) mongokit.Pipeline {
	ask := newRefList(len(qs))
	var places bson.A
	later := 0
	for _, q := range qs {
		if q.After > 0 {
			later = 1
		}
		if !q.Place.IsZero() {
			places = append(places, q.Place.String())
		}
		if !mongokit.OnlyPlace(q) {
			ask.add(q.HoldRef, obj("after", q.After.Milliseconds()))
		}
	}
	request := obj("lockIds", ask.lockIDs, "refs", ask.refs, "onlyExpired", onlyExpired)
	if places == nil {
		return releases[0][later]().Of(request)
	}
	return releases[1][later]().Of(append(request, obj("places", places)...))
}

// refList has the refs of a request, see hits.
type refList struct{ lockIDs, refs bson.A }

func newRefList(n int) refList { return refList{make(bson.A, 0, n), make(bson.A, 0, n)} }

func (a *refList) add(ref driver.HoldRef, more bson.D) {
	a.lockIDs = append(a.lockIDs, ref.LockID)
	a.refs = append(a.refs, append(obj("holdId", ref.HoldID.String(), "token", int64(ref.Token)), more...))
}
