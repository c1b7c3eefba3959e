package mongolock

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// statement is an update of one document by a pipeline:
//
//  1. the server's clock and what is asked for are put into a field, mongokit.Scratch;
//  2. so are the locks: what is held exclusively, as an array of none or one, and
//     what is held shared. The update fails if they are not where they belong;
//  3. it is decided, in that field, what is to change. Nothing is, if a lock is not
//     sound: what the statement cannot understand it does not overwrite;
//  4. the fields are set: to what they were, unless something changes;
//  5. that field is removed.
type statement = mongokit.Statement

// newStatement begins with stage 2, for the first one is what is asked for.
func newStatement(parts ...mongo.Pipeline) statement {
	return mongokit.NewStatement(append([]mongo.Pipeline{locks}, parts...)...)
}

// locks is stage 2. A document that was damaged or lacks what others have: an
// operator gets what it does not take, and the statement fails; or the locks are
// not sound.
var locks = mongo.Pipeline{
	set(
		"exclusive", filter(bson.A{"$exclusive"}, ne(orElse(lock("acquired"), false), false)),
		"shared", orElse("$shared.locks", bson.A{}),
		"objects", merge("$exclusive", "$shared"),
	),
	set(
		"sound", not(or(
			some(filter(concat(tmp("exclusive"), tmp("shared")), not(sound))),
			some(filter(tmp("exclusive"), ne(lock("acquired"), true))),
		)),
		"micros", op("$multiply", op("$subtract", tmp("now"), firstEnd), int64(1000)),
	),
	set("token", next(fenceField), "touched", next(touchedField)),
}

// next is a number that is larger than the field, and not behind the clock.
func next(field string) bson.D {
	return larger(add(orElse("$"+field, int64(0)), int64(1)), tmp("micros"))
}

// What is known of a lock.
var (
	sound = and(
		gt(lock("lockId"), ""), lt(lock("lockId"), obj("$literal", bson.D{})), // a text that is not empty
		endSound("expiresAt"), endSound("end"),
	)
	// expired: past its end and its takeover delay.
	expired = and(gte(lock("expiresAt"), firstEnd), lte(lock("expiresAt"), tmp("now")))
	// meant: the lock is that of the ref which is asked for, see driver.HoldRef.
	meant = and(eq(lock("lockId"), ask("lockId")), or(
		and(eq(ask("holdId"), ""), eq(ask("token"), 0)),
		and(
			ours(lock),
			or(eq(ask("holdId"), ""), eq(lock("holdId"), ask("holdId"))),
			or(eq(ask("token"), 0), eq(lock("token"), ask("token"))),
		),
	))
)

// ours: the end is what Holdfast wrote.
func ours(field func(string) string) bson.D {
	return eq(orElse(field("expiresAt"), nil), orElse(field("blocksUntil"), nil))
}

func endSound(field string) bson.D {
	return or(eq(orElse(lock(field), nil), nil), and(gte(lock(field), firstEnd), lte(lock(field), lastEnd)))
}

// sharedAs keeps count and array together, for old clients go by the count.
func sharedAs(locks any) bson.D {
	return merge("$shared", obj("count", size(locks), "locks", locks))
}

// An acquire is refused by whatever blocks, the asker's own hold too: a repeat
// finds that in the document and is granted what it has.
var (
	acquireExclusive = acquire(
		and(not(some(tmp("exclusive"))), not(some(tmp("shared")))),
		tmp("lock"), bson.A{})
	acquireShared = acquire(
		and(
			not(some(tmp("exclusive"))),
			lt(size(tmp("shared")), ask("limit")),
			not(op("$in", ask("lock.lockId"), tmp("shared.lockId"))),
		),
		obj("$literal", nobody), concat(tmp("shared"), bson.A{tmp("lock")}))
)

func acquire(room, exclusive, shared any) statement {
	return newStatement(
		mongo.Pipeline{
			set(
				"exclusive", filter(tmp("exclusive"), not(expired)),
				"shared", filter(tmp("shared"), not(expired)),
				"end", add(tmp("now"), ask("ttl")),
			),
			set("until", add(tmp("end"), ask("lock.takeoverDelay"))),
			set(
				"granted", and(tmp("sound"), lte(tmp("token"), int64(driver.MaxToken)), room),
				"lock", merge(ask("lock"), obj(
					"createdAt", tmp("now"), "expiresAt", tmp("until"),
					"token", tmp("token"), "end", tmp("end"), "blocksUntil", tmp("until"),
				)),
			),
		},
		finish(tmp("granted"),
			"exclusive", exclusive, "shared", sharedAs(shared),
			fenceField, tmp("token"), touchedField, tmp("touched"),
		),
	)
}

// hit are the stages that find the lock that is meant, of which there is at most
// one, and what is known of it.
var hit = mongo.Pipeline{
	set("hit", first(filter(concat(tmp("exclusive"), tmp("shared")), meant))),
	set("ours", ours(ofHit)),
	set(
		"end", orElse(cond(tmp("ours"), ofHit("end"), ofHit("expiresAt")), nil),
		"delay", cond(tmp("ours"), orElse(ofHit("takeoverDelay"), int64(0)), int64(0)),
		"released", and(tmp("ours"), eq(ofHit("released"), true)),
	),
	set("live", or(eq(tmp("end"), nil), gt(tmp("end"), tmp("now")))),
}

func ofHit(field string) string { return tmp("hit." + field) }

// renewOne extends a hold. The document changes if, and only if, it is extended.
var renewOne = newStatement(
	hit,
	mongo.Pipeline{
		set("asked", add(tmp("now"), ask("ttl"))),
		set("becomes", cond(
			and(ne(tmp("asked"), nil), not(ask("exact")), or(eq(tmp("end"), nil), gt(tmp("end"), tmp("asked")))),
			tmp("end"), tmp("asked"),
		)),
		set(
			"changes", and(tmp("live"), not(tmp("released"))),
			"hitBecomes", rewritten(add(tmp("becomes"), tmp("delay")), "renewedAt", tmp("now")),
		),
	},
	changeHit(false),
)

// releaseOne ends a hold, now or after a delay.
var releaseOne = newStatement(
	hit,
	mongo.Pipeline{
		set("asked", add(tmp("now"), ask("after"))),
		set("becomes", cond(or(eq(tmp("end"), nil), gt(tmp("end"), tmp("asked"))), tmp("asked"), tmp("end"))),
		set(
			"changes", true,
			"goes", or(eq(ask("after"), 0), not(tmp("live"))),
			"hitBecomes", rewritten(tmp("becomes"), "released", true),
		),
	},
	changeHit(true),
)

// rewritten is the hit with another end. What an old client's lock has left of a
// hold before goes, or the refs to that would be good again.
func rewritten(until any, more ...any) bson.D {
	return merge(tmp("hit"), obj(append([]any{
		"expiresAt", until, "end", tmp("becomes"), "blocksUntil", until, "takeoverDelay", tmp("delay"),
		"holdId", cond(tmp("ours"), ofHit("holdId"), nil), "token", cond(tmp("ours"), ofHit("token"), nil),
	}, more...)...))
}

// changeHit puts what the hit becomes in its place, or nothing if it goes.
func changeHit(frees bool) mongo.Pipeline {
	changes := and(tmp("sound"), ne(tmp("hit"), nil), tmp("changes"))
	isHit := eq("$$l", tmp("hit"))
	pairs := []any{touchedField, tmp("touched")}
	if frees {
		pairs = append(pairs, freedField, tmp("touched"))
	}
	return append(mongo.Pipeline{
		set("changes", changes),
		set("inExclusive", and(tmp("changes"), eq("$exclusive", tmp("hit")))),
		set("inShared", and(tmp("changes"), not(tmp("inExclusive")))),
		set("shared", each(
			filter(tmp("shared"), not(and(tmp("goes"), isHit))),
			cond(isHit, tmp("hitBecomes"), "$$l"),
		)),
		obj("$set", obj(
			"exclusive", cond(tmp("inExclusive"),
				cond(tmp("goes"), obj("$literal", nobody), tmp("hitBecomes")), "$exclusive"),
			"shared", cond(tmp("inShared"), sharedAs(tmp("shared")), "$shared"),
		)),
	}, finish(tmp("changes"), pairs...)...)
}

// pruneOne drops what no longer blocks.
var pruneOne = newStatement(
	mongo.Pipeline{
		set(
			"noExclusive", some(filter(tmp("exclusive"), expired)),
			"left", filter(tmp("shared"), not(expired)),
		),
		set("changes", and(tmp("sound"), or(
			tmp("noExclusive"), lt(size(tmp("left")), size(tmp("shared"))),
		))),
	},
	finish(tmp("changes"),
		"exclusive", cond(tmp("noExclusive"), obj("$literal", nobody), "$exclusive"), "shared", sharedAs(tmp("left")),
		touchedField, tmp("touched"), freedField, tmp("touched"),
	),
)
