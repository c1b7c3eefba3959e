package mongodoc

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// statements are updates of one document by pipelines, see package mongokit. A pipeline
//
//  1. sets a field, mongokit.Scratch, to the server's clock and the request;
//  2. adds the hold that the document shows, also one of an old program. If the document
//     is damaged, the update fails, or the document is not sound;
//  3. decides what changes. Nothing changes if the document is not sound;
//  4. sets the fields of the layout and Holdfast's own, or keeps them.
type statements struct {
	*layout
	acquire, renew, release, prune mongokit.Statement
}

func newStatements(l *layout) *statements {
	hold := l.hold()
	return &statements{
		layout:  l,
		acquire: mongokit.NewStatement(hold, l.grant()),
		renew:   mongokit.NewStatement(hold, l.extend()),
		release: mongokit.NewStatement(hold, l.end()),
		prune:   mongokit.NewStatement(hold, l.drop()),
	}
}

// ours names a field that Holdfast added to the document.
func ours(field string) string { return "$" + added + "." + field }

// fresh says that the statement creates the document: the filter of an upsert leaves a
// marker only in new documents.
var fresh = eq(op("$type", "$"+mongokit.Scratch), "null")

// hold returns stage 2. own means that Holdfast wrote the present fields of the layout.
func (l *layout) hold() mongo.Pipeline {
	own := bson.A{not(missing(ours("shown")))}
	for _, field := range l.fields {
		own = append(own, eq(orElse("$"+shown(field), nil), orElse("$"+field, nil)))
	}
	var oldID any = obj("$literal", OldLockID)
	if l.lockID != "" {
		oldID = "$" + l.lockID
	}
	ofOwn := func(field string, otherwise any) bson.D {
		return cond(tmp("own"), orElse(ours(field), otherwise), otherwise)
	}
	return mongo.Pipeline{
		set(
			"own", obj("$and", own),
			"micros", op("$multiply", op("$subtract", tmp("now"), bson.DateTime(0)), int64(1000)),
		),
		set(
			"held", and(not(tmp("fresh")), l.taken, not(and(tmp("own"), missing(ours("lockId"))))),
			"lockId", cond(tmp("own"), ours("lockId"), oldID),
			"end", cond(tmp("own"), orElse(ours("end"), nil), orElse(l.oldEnd, nil)),
			"holdId", ofOwn("holdId", ""),
			"delay", ofOwn("takeoverDelay", int64(0)),
			"released", and(tmp("own"), eq(ours("released"), true)),
			"last", orElse(ours("token"), int64(0)),
			"touched", larger(add(orElse(ours("touched"), int64(0)), int64(1)), tmp("micros")),
		),
		set(
			"sound", and(l.sound, addedSound, or(not(and(tmp("held"), tmp("own"))), and(holdSound, namesSound))),
			"until", cond(tmp("released"), tmp("end"), add(tmp("end"), tmp("delay"))),
			"live", or(eq(tmp("end"), nil), gt(tmp("end"), tmp("now"))),
			"next", larger(add(tmp("last"), int64(1)), tmp("micros")),
		),
	}
}

// expired says that the hold no longer blocks.
var expired = and(ne(tmp("until"), nil), lte(tmp("until"), tmp("now")))

// repeated says that the requested hold exists and is live.
var repeated = and(
	tmp("sound"), tmp("held"), eq(tmp("holdId"), ask("hold.holdId")), eq(tmp("lockId"), ask("hold.lockId")),
	tmp("live"), not(tmp("released")),
)

// grant returns the stages of an acquire. Anything that blocks refuses it, even its own
// hold: a repeat finds that hold in the document and gets the same grant. It writes
// touched all the same: the first attempt may have failed because no other member had the
// hold yet, and the reply to a write waits for the members.
func (l *layout) grant() mongo.Pipeline {
	return append(mongo.Pipeline{
		set("newEnd", add(tmp("now"), ask("ttl")), "newLockId", ask("hold.lockId")),
		set("newUntil", add(tmp("newEnd"), ask("hold.takeoverDelay"))),
		set(
			"changes", and(tmp("sound"), lte(tmp("next"), int64(driver.MaxToken)), or(not(tmp("held")), expired)),
			"show", l.held,
		),
		obj("$set", obj(added, cond(repeated, merge("$"+added, obj("touched", tmp("touched"))), "$"+added))),
	}, l.change(tmp("show"), merge(ask("hold"), obj(
		"token", tmp("next"), "touched", tmp("touched"), "createdAt", tmp("now"), "end", tmp("newEnd"), "shown", tmp("show"),
	)))...)
}

// matchesRef says that the ref of the request matches the hold: see driver.HoldRef.
var matchesRef = and(tmp("held"), eq(tmp("lockId"), ask("lockId")), or(
	and(eq(ask("holdId"), ""), eq(ask("token"), 0)),
	and(
		ne(tmp("holdId"), ""),
		or(eq(ask("holdId"), ""), eq(tmp("holdId"), ask("holdId"))),
		or(eq(ask("token"), 0), eq(tmp("last"), ask("token"))),
	),
))

// rewritten is Holdfast's field when a hold changes. If an old program wrote the hold,
// the field has no hold ID, so refs to a former hold stay lost.
func (l *layout) rewritten(more ...any) bson.D {
	return merge(
		cond(tmp("own"), "$"+added, obj("lockId", tmp("lockId"), "token", tmp("last"), "createdAt", orElse(l.oldSince, nil))),
		obj(append(more, "touched", tmp("touched"), "end", tmp("newEnd"), "shown", tmp("show"))...),
	)
}

// extend returns the stages of a renewal. The document changes if, and only if, the hold
// is extended.
func (l *layout) extend() mongo.Pipeline {
	return append(mongo.Pipeline{
		set("asked", add(tmp("now"), ask("ttl")), "newLockId", tmp("lockId")),
		set("newEnd", cond(
			and(ne(tmp("asked"), nil), or(eq(tmp("end"), nil), gt(tmp("end"), tmp("asked")))),
			tmp("end"), tmp("asked"),
		)),
		set("newUntil", add(tmp("newEnd"), tmp("delay"))),
		set("changes", and(tmp("sound"), matchesRef, tmp("live"), not(tmp("released"))), "show", l.held),
	}, l.change(tmp("show"), l.rewritten("renewedAt", tmp("now")))...)
}

// end returns the stages of a release, immediate or after a delay.
func (l *layout) end() mongo.Pipeline {
	return append(mongo.Pipeline{
		set("asked", add(tmp("now"), ask("after")), "newLockId", tmp("lockId")),
		set("newEnd", cond(or(eq(tmp("end"), nil), gt(tmp("end"), tmp("asked"))), tmp("asked"), tmp("end"))),
		set("newUntil", tmp("newEnd"), "goes", or(eq(ask("after"), 0), not(tmp("live")))),
		set("changes", and(tmp("sound"), matchesRef), "show", l.held, "freed", l.free),
	}, l.change(
		cond(tmp("goes"), tmp("freed"), tmp("show")),
		cond(tmp("goes"), nobody, l.rewritten("released", true)),
	)...)
}

// drop returns the stages that free a resource whose hold no longer blocks.
func (l *layout) drop() mongo.Pipeline {
	return append(mongo.Pipeline{
		set("changes", and(tmp("sound"), tmp("held"), expired), "freed", l.free),
	}, l.change(tmp("freed"), nobody)...)
}

// nobody is Holdfast's field of a resource without a hold.
var nobody = obj("token", tmp("last"), "touched", tmp("touched"), "shown", tmp("freed"))

// change returns stage 4.
func (l *layout) change(fields, own any) mongo.Pipeline {
	pairs := []any{added, own}
	for _, field := range l.fields {
		pairs = append(pairs, field, "$"+mongokit.Scratch+".fields."+field)
	}
	return append(mongo.Pipeline{set("fields", fields)}, finish(tmp("changes"), pairs...)...)
}
