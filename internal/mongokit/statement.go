package mongokit

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Scratch is the field in which a statement keeps what it is asked for and what
// it works out. The last stage of a statement removes it.
const Scratch = "_holdfast"

// Tmp is a field of Scratch.
func Tmp(name string) string { return "$" + Scratch + "." + name }

// Ask is a field of what is asked for.
func Ask(name string) string { return Tmp("ask." + name) }

// Set is a stage that sets fields of Scratch, given as pairs of name and value.
func Set(pairs ...any) bson.D {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = Scratch + "." + pairs[i].(string)
	}
	return Obj("$set", Obj(pairs...))
}

// Finish are the last stages: the fields are set if the change takes place, else
// to what they were. A document that comes out as it went in is not written: the
// server compares.
func Finish(change any, pairs ...any) mongo.Pipeline {
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = Cond(change, pairs[i], "$"+pairs[i-1].(string))
	}
	return mongo.Pipeline{Obj("$set", Obj(pairs...)), Obj("$unset", Scratch)}
}

// Statement is an update of one document by a pipeline. It has all stages but the
// first, encoded: a batch has hundreds of them.
type Statement []bson.Raw

// NewStatement makes a statement of its stages. It panics if they cannot be
// encoded.
func NewStatement(parts ...mongo.Pipeline) Statement {
	var s Statement
	for _, stage := range slices.Concat(parts...) {
		raw, err := bson.Marshal(stage)
		if err != nil {
			panic(err) // a mistake in the program
		}
		s = append(s, raw)
	}
	return s
}

// Of completes the statement by its first stage: the server's clock, what is
// asked for, and what else is to be known of the document before it is touched.
//
// What callers chose is in the literal. $$NOW stands in a nested $set alone, and
// expressions read it from there: some servers of the protocol refuse it inside
// the objects that operators build.
func (s Statement) Of(ask bson.D, more ...any) bson.A {
	pipeline := make(bson.A, 0, len(s)+1)
	known := append(Obj("now", "$$NOW", "ask", Obj("$literal", ask)), Obj(more...)...)
	pipeline = append(pipeline, Obj("$set", Obj(Scratch, known)))
	for _, stage := range s {
		pipeline = append(pipeline, stage)
	}
	return pipeline
}
