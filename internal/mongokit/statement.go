package mongokit

import (
	"encoding/binary"
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
// first, encoded: elements "1" and so on of an array. A batch has hundreds of them.
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

// Of completes the statement by its first stage: the server's clock, what is
// asked for, and what else is to be known of the document before it is touched.
//
// What callers chose is in the literal. $$NOW stands in a nested $set alone, and
// expressions read it from there: some servers of the protocol refuse it inside
// the objects that operators build.
func (s Statement) Of(ask bson.D, more ...any) Pipeline {
	known := append(Obj("now", "$$NOW", "ask", Obj("$literal", ask)), Obj(more...)...)
	return Pipeline{Obj("$set", Obj(Scratch, known)), s}
}

// Pipeline is a statement with what is asked for. The driver takes it as an update.
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
