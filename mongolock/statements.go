package mongolock

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// statement is an update of one document by a pipeline. The pipeline
//
//  1. sets a field, mongokit.Scratch, to the server's clock and the request;
//  2. adds the locks to that field (the exclusive one as an array of none or one, and the
//     shared ones) and the live places. The update fails if they have the wrong types;
//  3. decides, in that field, what changes. Nothing changes if a lock is not sound: the
//     statement does not overwrite a lock that it cannot decode;
//  4. sets the fields of the document, to their old values if nothing changes;
//  5. removes the scratch field.
type statement = mongokit.Statement

// newStatement begins with stage 2, because the first stage has the request. It sets the
// pairs beside sound, which completes stage 2.
//
// Statements and their parts are built on first use, because the program may have linked
// this package and use another store. Building all of them takes as long as starting a
// small program.
func newStatement(pairs []any, parts ...mongo.Pipeline) statement {
	return statementOn(locks("waiters", livePlaces(tmp("now"))), pairs, parts)
}

// statementOn is newStatement with the stages that add the locks and perhaps the queue.
func statementOn(locks mongo.Pipeline, pairs []any, parts []mongo.Pipeline) statement {
	return mongokit.NewStatement(append([]mongo.Pipeline{
		locks, {set(append([]any{"sound", sound()}, pairs...)...)},
	}, parts...)...)
}

// locks is stage 2. If a document is damaged, or lacks a field, an operator fails on it,
// and so does the statement, or the locks are not sound. The statement checks all locks
// at once: there may be a thousand, and checking one after another takes a server far
// longer.
func locks(pairs ...any) mongo.Pipeline {
	return mongo.Pipeline{
		set(append([]any{
			"exclusive", filter(bson.A{"$exclusive"}, ne(orElse(lock("acquired"), false), false)),
			"shared", orElse("$shared.locks", bson.A{}),
			"objects", merge("$exclusive", "$shared"),
			"micros", op("$multiply", op("$subtract", tmp("now"), firstEnd), int64(1000)),
		}, pairs...)...),
		set(
			"ids", all("lockId"),
			"ends", concat(all("expiresAt"), all("end")),
			"limits", concat(all("limit"), bson.A{0}),
			"token", next(fenceField), "touched", next(touchedField),
		),
	}
}

// all returns the values of a field in the locks that have it.
func all(field string) bson.D {
	return concat(tmp("exclusive."+field), tmp("shared."+field))
}

// next is a number that is larger than the field and not behind the clock.
func next(field string) bson.D {
	return larger(add(orElse("$"+field, int64(0)), int64(1)), tmp("micros"))
}

// sound says that the lock ID of each lock is a non-empty string, that its ends are null
// or dates, and that its limit, if any, is a number. Types are ordered: a value between
// two strings is a string, and numbers are less than any string.
func sound() bson.D {
	return and(
		eq(size(tmp("ids")), add(size(tmp("exclusive")), size(tmp("shared")))),
		not(op("$in", nil, tmp("ids"))),
		gt(orElse(least(tmp("ids")), "none"), ""),
		lt(orElse(most(tmp("ids")), "none"), obj("$literal", bson.D{})),
		gte(orElse(least(tmp("ends")), firstEnd), firstEnd),
		lte(orElse(most(tmp("ends")), firstEnd), lastEnd),
		gte(least(tmp("limits")), 0), lt(most(tmp("limits")), ""),
		op("$in", orElse("$exclusive.acquired", false), bson.A{false, true}),
	)
}

// expired says that the lock is past its end and its takeover delay.
func expired() bson.D {
	return and(gte(lock("expiresAt"), firstEnd), lte(lock("expiresAt"), tmp("now")))
}

// ours says that Holdfast wrote the end.
func ours(field func(string) string) bson.D {
	return eq(orElse(field("expiresAt"), nil), orElse(field("blocksUntil"), nil))
}

// sharedAs sets count and array together, because old clients decide by the count.
func sharedAs(locks any) bson.D {
	return merge("$shared", obj("count", size(locks), "locks", locks))
}

// Every hold that blocks refuses an acquire, even the hold of the same request: a repeat
// finds it in the document and gets the same grant. The statement writes touched all the
// same: the first attempt may have failed because no other member had the hold yet, and
// the reply to a write waits for the members.
//
// The places ahead count like holds, as if their waiters already held the resource.
// Requests with a place have statements of their own, because most requests have none.
var acquires = [2][2]func() statement{
	driver.Exclusive: {acquiring(driver.Exclusive, false), acquiring(driver.Exclusive, true)},
	driver.Shared:    {acquiring(driver.Shared, false), acquiring(driver.Shared, true)},
}

func acquiring(mode driver.Mode, hasPlace bool) func() statement {
	return sync.OnceValue(func() statement { return acquire(mode, hasPlace) })
}

func acquire(mode driver.Mode, hasPlace bool) statement {
	pairs := []any{
		"exclusive", kept("exclusive"), "shared", kept("shared"),
		"end", add(tmp("now"), ask("ttl")),
		"until", op("$add", tmp("now"), ask("ttl"), ask("lock.takeoverDelay")),
	}
	var parts []mongo.Pipeline
	inFront := fair(tmp("waiters"))
	if hasPlace {
		pairs = append(pairs,
			"at", ownPlace(tmp("waiters"), func(field string) any { return ask("place." + field) }),
			"others", filter(tmp("waiters"), ne(lock("placeId"), ask("place.placeId"))),
		)
		inFront = ahead(tmp("waiters"), tmp("at"), tmp("others"))
	}
	room, exclusive, shared := not(some(concat(tmp("exclusive"), tmp("shared"), tmp("ahead")))), any(tmp("lock")), any(bson.A{})
	if mode == driver.Shared {
		room = and(
			not(some(tmp("writers"))),
			lt(size(tmp("readers")), ask("most")),
			not(op("$in", ask("lock.lockId"), tmp("readers.lockId"))),
			not(limitDiffers()),
		)
		exclusive, shared = obj("$literal", nobody), concat(tmp("shared"), bson.A{tmp("lock")})
	}
	if hasPlace {
		parts = append(parts, mongo.Pipeline{set(
			"ahead", inFront,
			"own", cond(gte(tmp("at"), 0), op("$arrayElemAt", tmp("waiters"), tmp("at")), nil),
		)})
	} else {
		pairs = append(pairs, "ahead", inFront)
	}
	if mode == driver.Shared {
		parts = append(parts, mongo.Pipeline{set(
			"writers", concat(tmp("exclusive"), filter(tmp("ahead"), ne(lock("mode"), driver.Shared.String()))),
			"readers", concat(tmp("shared"), filter(tmp("ahead"), eq(lock("mode"), driver.Shared.String()))),
		)})
	}
	parts = append(parts,
		mongo.Pipeline{set(
			"granted", and(tmp("sound"), lte(tmp("token"), int64(driver.MaxToken)), room),
			"repeated", and(tmp("sound"), repeated()),
			"lock", merge(ask("lock"), obj(
				"createdAt", tmp("now"), "expiresAt", tmp("until"),
				"token", tmp("token"), "end", tmp("end"), "blocksUntil", tmp("until"),
			)),
		)},
	)
	touches := bson.A{tmp("granted"), tmp("repeated")}
	waiters := cond(tmp("granted"), tmp("waiters"), "$"+waitersField)
	if hasPlace {
		parts = append(parts, queues())
		touches = append(touches, tmp("queues"))
		waiters = queueKept()
	}
	return newStatement(pairs, append(parts, mongokit.FinishWith(
		obj(touchedField, cond(obj("$or", touches), tmp("touched"), "$"+touchedField), waitersField, waiters),
		tmp("granted"), "exclusive", exclusive, "shared", sharedAs(shared), fenceField, tmp("token"),
	))...)
}

// repeated says that the requested hold exists and is live. There may be a thousand
// holds: the statement checks them one by one only if one of them has the ID.
func repeated() bson.D {
	return cond(
		op("$in", ask("lock.holdId"), concat(tmp("exclusive.holdId"), tmp("shared.holdId"))),
		some(filter(concat(tmp("exclusive"), tmp("shared")), and(
			eq(lock("holdId"), ask("lock.holdId")), eq(lock("lockId"), ask("lock.lockId")),
			ours(lock), ne(lock("released"), true), live(lock("end")),
		))),
		false,
	)
}

// live says that this end has not been reached.
func live(end any) bson.D { return or(eq(orElse(end, nil), nil), gt(end, tmp("now"))) }

// limitDiffers says that a shared hold, or a place ahead, has another limit than the
// request. If an old client renews a lock, it loses its limit, although the field stays.
// The statement checks the locks one by one only if a limit differs.
func limitDiffers() bson.D {
	return and(ne(ask("limit"), nil), cond(
		and(
			eq(orElse(least(tmp("readers.limit")), ask("limit")), ask("limit")),
			eq(orElse(most(tmp("readers.limit")), ask("limit")), ask("limit")),
		),
		false,
		some(filter(tmp("readers"), and(
			ours(lock), gte(lock("limit"), 0), ne(lock("limit"), ask("limit")),
		))),
	))
}

// kept returns the locks that have not expired, usually all of them.
func kept(locks string) bson.D {
	return cond(lte(least(tmp(locks+".expiresAt")), tmp("now")), filter(tmp(locks), not(expired())), tmp(locks))
}

// pruneOne drops the locks that no longer block.
var pruneOne = sync.OnceValue(func() statement {
	return newStatement(
		[]any{
			"noExclusive", some(filter(tmp("exclusive"), expired())),
			"left", kept("shared"),
		},
		mongo.Pipeline{set("changes", and(tmp("sound"), or(
			tmp("noExclusive"), lt(size(tmp("left")), size(tmp("shared"))),
		)))},
		finish(tmp("changes"),
			"exclusive", cond(tmp("noExclusive"), obj("$literal", nobody), "$exclusive"), "shared", sharedAs(tmp("left")),
			touchedField, tmp("touched"), freedField, tmp("touched"), waitersField, tmp("waiters"),
		),
	)
})
