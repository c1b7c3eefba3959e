package fence

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The collection encodes the caller's values, because its registry and options may
// differ from the driver's defaults. This package reads only the top level of an
// update, where it adds the token.

// fencedUpdate returns the update with the registration of the token.
func fencedUpdate(update any, token uint64) (any, error) {
	register := bson.D{{Key: Field, Value: int64(token)}}
	update, err := written(update)
	if err != nil {
		return nil, invalid("the update: %v", err)
	}
	if stages, ok := stagesOf(update); ok {
		return append(stages, encoded(bson.D{{Key: "$set", Value: register}})), nil
	}
	operators, ok := fieldsOf(update)
	if !ok {
		return nil, invalid("the update is a %T: write its operators as a bson.D or a map, or its stages as a slice", update)
	}
	for _, o := range operators {
		if !strings.HasPrefix(o.Key, "$") {
			return nil, invalid("the update must consist of operators such as $set")
		}
		if err := checkOperator(o); err != nil {
			return nil, err
		}
	}
	return registering(operators, register)
}

// registering adds the registration to the operators. Because the document has seen no
// larger token, $set and $max have the same effect.
func registering(operators, register bson.D) (bson.D, error) {
	added := encoded(register)
	for _, name := range []string{"$max", "$set"} {
		i := slices.IndexFunc(operators, func(o bson.E) bool { return o.Key == name })
		if i < 0 {
			return append(operators, bson.E{Key: name, Value: added}), nil
		}
		if fields, ok := fieldsOf(operators[i].Value); ok {
			fields = append(fields, bson.E{Key: Field, Value: added.Lookup(Field)})
			operators[i].Value = fields
			return operators, nil
		}
	}
	return nil, invalid("the update has $max and $set: write the fields of one of them as a bson.D or a map, because the token goes there")
}

// checkOperator refuses an operator that names the token's field, as far as it can read the
// operator. The server refuses the others, because two operators on one field conflict.
func checkOperator(o bson.E) error {
	fields, ok := fieldsOf(o.Value)
	if !ok {
		raw, err := inspected(o.Value)
		if err != nil && isScalar(o.Value) {
			return invalid("the operator %s has no fields", o.Key)
		}
		if fields, ok = fieldsOf(raw); !ok {
			return nil
		}
	}
	for _, f := range fields {
		to, _ := f.Value.(string)
		if v, isRaw := f.Value.(bson.RawValue); isRaw {
			to, _ = v.StringValueOK()
		}
		if touches(f.Key) || o.Key == "$rename" && touches(to) {
			return invalid("the update names the field %q, which has the token", Field)
		}
	}
	return nil
}

// inspectRegistry is a registry for this package alone. On the first use of a type, the
// driver stores in a registry how to encode it. Encoding a caller's type with a shared
// registry could change how other code encodes it.
var inspectRegistry = bson.NewRegistry()

// inspected encodes a copy of the caller's value to look into it. The copy is not sent.
func inspected(v any) (bson.Raw, error) {
	var b bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&b))
	e.SetRegistry(inspectRegistry)
	err := e.Encode(v)
	return b.Bytes(), err
}

func touches(path string) bool { return path == Field || strings.HasPrefix(path, Field+".") }

// written follows pointers, and lets types encode themselves, as the driver does.
func written(by any) (any, error) {
	for {
		switch v := by.(type) {
		case nil:
			return nil, mongo.ErrNilDocument
		case bson.Marshaler:
			raw, err := v.MarshalBSON()
			if err != nil {
				return nil, err
			}
			return bson.Raw(raw), nil
		case bson.ValueMarshaler:
			kind, value, err := v.MarshalBSONValue()
			if err != nil {
				return nil, err
			}
			return bson.RawValue{Type: bson.Type(kind), Value: value}, nil
		}
		p := reflect.ValueOf(by)
		if p.Kind() != reflect.Pointer {
			return by, nil
		}
		if by = nil; !p.IsNil() {
			by = p.Elem().Interface()
		}
	}
}

var typeOfD = reflect.TypeFor[bson.D]()

// fieldsOf returns a copy of the fields of a document if the type of v shows them.
func fieldsOf(v any) (bson.D, bool) {
	var raw bson.Raw
	switch v := v.(type) {
	case nil:
		return nil, false
	case bson.Raw:
		raw = v
	case bson.RawValue:
		var ok bool
		if raw, ok = v.DocumentOK(); !ok {
			return nil, false
		}
	case bson.Marshaler, bson.ValueMarshaler:
		return nil, false
	default:
		r := reflect.ValueOf(v)
		switch {
		case r.Type().ConvertibleTo(typeOfD):
			return slices.Clone(r.Convert(typeOfD).Interface().(bson.D)), true
		case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
			raw = r.Bytes()
		case r.Kind() == reflect.Map && r.Type().Key().Kind() == reflect.String:
			fields := bson.D{}
			for _, key := range r.MapKeys() {
				fields = append(fields, bson.E{Key: key.String(), Value: r.MapIndex(key).Interface()})
			}
			return fields, true
		default:
			return nil, false
		}
	}
	elements, err := raw.Elements()
	if err != nil {
		return nil, false
	}
	fields := bson.D{}
	for _, e := range elements {
		fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return fields, true
}

// stagesOf returns a copy of the stages of a pipeline.
func stagesOf(update any) (stages bson.A, ok bool) {
	if v, isRaw := update.(bson.RawValue); isRaw {
		array, isArray := v.ArrayOK()
		if !isArray {
			return nil, false
		}
		values, err := array.Values()
		for _, stage := range values {
			stages = append(stages, bson.Raw(stage.Value))
		}
		return stages, err == nil
	}
	r := reflect.ValueOf(update)
	if _, isDocument := fieldsOf(update); isDocument || r.Kind() != reflect.Slice && r.Kind() != reflect.Array ||
		r.Type().Elem().Kind() == reflect.Uint8 {
		return nil, false
	}
	for i := range r.Len() {
		stages = append(stages, r.Index(i).Interface())
	}
	return stages, true
}

// isScalar reports whether no encoder can make a document from the value.
func isScalar(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Interface:
		return false
	default:
		return true
	}
}

// hasID reports whether the filter matches at most one document because its _id is a
// value, not a condition.
func hasID(filter bson.D) bool {
	at := slices.IndexFunc(filter, func(f bson.E) bool { return f.Key == "_id" })
	if at < 0 {
		return false
	}
	raw, err := inspected(bson.D{{Key: "_id", Value: filter[at].Value}})
	if err != nil {
		return false
	}
	id := raw.Lookup("_id")
	if condition, ok := id.DocumentOK(); ok {
		first, err := condition.IndexErr(0)
		return err != nil || !strings.HasPrefix(first.Key(), "$")
	}
	return id.Type != bson.TypeRegex
}
