package mongokit

import (
	"encoding/binary"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Scratch is the field in which a statement keeps the request and intermediate
// results. The last stage of a statement removes it.
const Scratch = "_holdfast"

// Tmp names a field of Scratch.
func Tmp(name string) string { return "$" + Scratch + "." + name }

// Ask names a field of the request.
func Ask(name string) string { return Tmp("ask." + name) }

// Set returns a stage that sets fields of Scratch, given as pairs of name and value.
func Set(pairs ...any) bson.D {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = Scratch + "." + pairs[i].(string)
	}
	return Obj("$set", Obj(pairs...))
}

// Finish returns the last stages. They set the fields if the change takes place, and
// otherwise keep them. The server does not write an unchanged document.
func Finish(change any, pairs ...any) mongo.Pipeline { return FinishWith(nil, change, pairs...) }

// FinishWith is Finish with fields that are set in either case.
func FinishWith(fields bson.D, change any, pairs ...any) mongo.Pipeline {
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = Cond(change, pairs[i], "$"+pairs[i-1].(string))
	}
	return mongo.Pipeline{Obj("$set", append(fields, Obj(pairs...)...)), Obj("$unset", Scratch)}
}

// Statement is an update of one document by a pipeline. It has all stages but the first,
// encoded as the elements "1" and so on of an array. They are encoded once, because a
// batch has hundreds of statements.
type Statement []byte

// NewStatement makes a statement of its stages. It panics if they cannot be
// encoded.
func NewStatement(parts ...mongo.Pipeline) Statement {
	_, array, err := bson.MarshalValue(append(mongo.Pipeline{{}}, slices.Concat(parts...)...))
	if err != nil {
		panic(err) // a mistake in the program
	}
	const head, empty, tail = 4, 3 + 5, 1 // length; first element, an empty document; the end
	return array[head+empty : len(array)-tail]
}

// Of completes the statement with its first stage: the server's clock, the request, and
// other values that the statement needs from the document before it changes.
//
// All values of callers are in the literal. $$NOW is only in a nested $set, and
// expressions read it from there: some servers that speak the protocol refuse it inside
// the objects that operators build.
func (s Statement) Of(ask bson.D, more ...any) Pipeline {
	known := append(Obj("now", "$$NOW", "ask", Obj("$literal", ask)), Obj(more...)...)
	return Pipeline{Obj("$set", Obj(Scratch, known)), s}
}

// Pipeline is a statement with its request. The driver accepts it as an update.
type Pipeline struct {
	first bson.D
	rest  Statement
}

// MarshalBSONValue implements bson.ValueMarshaler.
func (p Pipeline) MarshalBSONValue() (byte, []byte, error) {
	first, err := bson.Marshal(p.first)
	if err != nil {
		return 0, nil, err
	}
	n := 4 + 3 + len(first) + len(p.rest) + 1
	array := binary.LittleEndian.AppendUint32(make([]byte, 0, n), uint32(n))
	array = append(array, byte(bson.TypeEmbeddedDocument), '0', 0)
	array = append(append(append(array, first...), p.rest...), 0)
	return byte(bson.TypeArray), array, nil
}
