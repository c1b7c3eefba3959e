package mongolock

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// One statement renews or releases many locks of a document: if each lock had its
// own, each statement would read all locks. The request has the list refs, and
// lockIds beside it, in which no lock ID occurs twice.
//
// The locks that the request names become hits:
//
//	{ lock, ask, ours, end, delay, released }
//
// with the lock as it is, its request, and what is known about it.
var hits = mongo.Pipeline{
	set("hits", each(
		filter(concat(tmp("exclusive"), tmp("shared")), op("$in", lock("lockId"), ask("lockIds"))),
		obj(
			"lock", "$$l",
			"ask", op("$arrayElemAt", ask("refs"), op("$indexOfArray", ask("lockIds"), lock("lockId"))),
			"ours", ours(lock),
			"end", orElse(cond(ours(lock), lock("end"), lock("expiresAt")), nil),
			"delay", cond(ours(lock), orElse(lock("takeoverDelay"), int64(0)), int64(0)),
			"released", and(ours(lock), eq(lock("released"), true)),
		),
	)),
	set("hits", each(filter(tmp("hits"), meant), merge("$$l", obj(
		"live", or(eq(hit("end"), nil), gt(hit("end"), tmp("now"))),
		"asked", add(tmp("now"), hit("ask.after")),
	)))),
}

// hit is a field of the hit that filter and each bind.
func hit(field string) string { return lock(field) }

// meant says that the ref of the request matches the lock: see driver.HoldRef.
var meant = or(
	and(eq(hit("ask.holdId"), ""), eq(hit("ask.token"), 0)),
	and(
		hit("ours"),
		or(eq(hit("ask.holdId"), ""), eq(hit("lock.holdId"), hit("ask.holdId"))),
		or(eq(hit("ask.token"), 0), eq(hit("lock.token"), hit("ask.token"))),
	),
)

// renewMany extends holds. The document changes if, and only if, one is extended.
var renewMany = newStatement(nil, hits,
	mongo.Pipeline{set("hits", each(
		filter(tmp("hits"), and(hit("live"), not(hit("released")))),
		merge("$$l", obj("becomes", cond(
			and(ne(hit("asked"), nil), not(hit("ask.exact")), or(eq(hit("end"), nil), gt(hit("end"), hit("asked")))),
			hit("end"), hit("asked"),
		))),
	))},
	changeHits(false, rewritten(add(hit("becomes"), hit("delay")), "renewedAt", tmp("now"))),
)

// releaseMany ends holds, now or after a delay. The document changes if, and only
// if, one of them is there.
var releaseMany = newStatement(nil, hits,
	mongo.Pipeline{
		set("hits", each(tmp("hits"), merge("$$l", obj(
			"goes", or(eq(hit("ask.after"), 0), not(hit("live"))),
			"becomes", cond(or(eq(hit("end"), nil), gt(hit("end"), hit("asked"))), hit("asked"), hit("end")),
		)))),
		set(
			"gone", each(filter(tmp("hits"), hit("goes")), hit("lock")),
			"stay", filter(tmp("hits"), not(hit("goes"))),
		),
	},
	changeHits(true, rewritten(hit("becomes"), "released", true)),
)

// rewritten is the lock of a hit with another end. A lock of an old client loses what
// an earlier hold left in it, because refs to that hold would match again.
func rewritten(until any, more ...any) bson.D {
	return merge(hit("lock"), obj(append([]any{
		"expiresAt", until, "end", hit("becomes"), "blocksUntil", until, "takeoverDelay", hit("delay"),
		"holdId", cond(hit("ours"), hit("lock.holdId"), nil), "token", cond(hit("ours"), hit("lock.token"), nil),
		"limit", cond(hit("ours"), orElse(hit("lock.limit"), nil), nil),
	}, more...)...))
}

// changeHits replaces each lock that is hit by becomes, or removes it.
func changeHits(frees bool, becomes any) mongo.Pipeline {
	changed := func(locks any) bson.D {
		return each(locks, cond(
			op("$in", "$$l", tmp("before")),
			op("$arrayElemAt", tmp("after"), op("$indexOfArray", tmp("before"), "$$l")),
			"$$l",
		))
	}
	// As many changes as there are hits, one after the other.
	touched := op("$add", tmp("touched"), size(tmp("hits")), int64(-1))
	pairs := []any{
		"exclusive", cond(some(tmp("exclusive")), orElse(first(tmp("exclusiveLeft")), obj("$literal", nobody)), "$exclusive"),
		"shared", sharedAs(tmp("sharedLeft")),
		touchedField, touched,
	}
	exclusive, shared, stay := any(tmp("exclusive")), any(tmp("shared")), any(tmp("hits"))
	if frees {
		left := func(locks string) bson.D { return filter(tmp(locks), not(op("$in", "$$l", tmp("gone")))) }
		exclusive, shared, stay = left("exclusive"), left("shared"), tmp("stay")
		pairs = append(pairs, freedField, touched)
	}
	return append(mongo.Pipeline{
		set(
			"changes", and(tmp("sound"), some(tmp("hits"))),
			"before", each(stay, hit("lock")), "after", each(stay, becomes),
		),
		set("exclusiveLeft", changed(exclusive), "sharedLeft", changed(shared)),
	}, finish(tmp("changes"), pairs...)...)
}

// renewal returns the write that renews holds of one resource.
func renewal(qs []driver.RenewRequest) mongo.WriteModel {
	return asking(renewMany(), qs, func(q driver.RenewRequest) (driver.HoldRef, bson.D) {
		return q.HoldRef, obj("after", mongokit.Millis(q.TTL), "exact", q.Exact)
	})
}

// ending returns the write that releases holds of one resource.
func ending(qs []driver.ReleaseRequest) mongo.WriteModel {
	return asking(releaseMany(), qs, func(q driver.ReleaseRequest) (driver.HoldRef, bson.D) {
		return q.HoldRef, obj("after", q.After.Milliseconds())
	})
}

func asking[Q any](s statement, qs []Q, of func(Q) (driver.HoldRef, bson.D)) mongo.WriteModel {
	lockIDs, refs := make(bson.A, len(qs)), make(bson.A, len(qs))
	var resource string
	for i, q := range qs {
		ref, more := of(q)
		resource, lockIDs[i], refs[i] = ref.Resource, ref.LockID, append(obj("holdId", ref.HoldID.String(), "token", int64(ref.Token)), more...)
	}
	return on(s, resource, obj("lockIds", lockIDs, "refs", refs))
}
