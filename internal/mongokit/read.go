package mongokit

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver/model"
)

// Absent reports whether a field is missing or null.
func Absent(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

// Text reads a text: "" if there is none.
func Text(v bson.RawValue) (string, error) {
	if Absent(v) {
		return "", nil
	}
	s, ok := v.StringValueOK()
	if !ok {
		return "", errors.New("is not a text")
	}
	return s, nil
}

// Number reads an integer of any type, floating point too, which a shell writes: 0 if
// there is none.
func Number(v bson.RawValue) (int64, error) {
	if Absent(v) {
		return 0, nil
	}
	n, ok := v.AsInt64OK()
	if f, isFloat := v.DoubleOK(); !ok || isFloat && f != float64(n) {
		return 0, errors.New("is not a whole number")
	}
	return n, nil
}

// Object reads a document: nil if there is none.
func Object(v bson.RawValue) (bson.Raw, error) {
	if Absent(v) {
		return nil, nil
	}
	o, ok := v.DocumentOK()
	if !ok {
		return nil, errors.New("is not a document")
	}
	return o, nil
}

// Moment reads a date: 0 if there is none, or none after 1970.
func Moment(v bson.RawValue) model.Time {
	t, ok := v.DateTimeOK()
	if !ok || t < 0 {
		return 0
	}
	return model.Time(t) * 1000
}
