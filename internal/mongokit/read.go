package mongokit

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Absent reports whether a field is missing or null.
func Absent(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

// Text reads a string, "" if the field is absent.
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

// Number reads an integer of any type, also a floating point number, which a shell
// writes. It returns 0 if the field is absent.
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

// Object reads a document, nil if the field is absent.
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

// Array reads the elements of an array, nil if the field is absent.
func Array(v bson.RawValue) ([]bson.RawValue, error) {
	if Absent(v) {
		return nil, nil
	}
	array, ok := v.ArrayOK()
	if !ok {
		return nil, errors.New("is not an array")
	}
	return array.Values()
}

// Moment reads a date, 0 if there is no date after 1970.
func Moment(v bson.RawValue) model.Time {
	t, ok := v.DateTimeOK()
	if !ok || t < 0 {
		return 0
	}
	return model.Time(t) * 1000
}

// ReadHold reads the fields that Holdfast adds to a hold in all layouts.
func ReadHold(doc bson.Raw, h *model.Hold) error {
	id, err := Text(doc.Lookup("holdId"))
	if err == nil {
		h.HoldID, err = driver.ParseHoldID(id)
	}
	if err != nil {
		return errors.New("its holdId is not 24 hex digits")
	}
	delay, err := Number(doc.Lookup("takeoverDelay"))
	if err != nil || delay < 0 || delay > driver.MaxTTL.Milliseconds() {
		return errors.New("its takeoverDelay is not a number of milliseconds")
	}
	h.TakeoverDelay = time.Duration(delay) * time.Millisecond
	if released := doc.Lookup("released"); !Absent(released) {
		var ok bool
		if h.Released, ok = released.BooleanOK(); !ok {
			return errors.New("its released is not true or false")
		}
	}
	return nil
}

// ReadDetails reads the fields that decide nothing, and leaves out invalid ones.
func ReadDetails(doc bson.Raw, h *model.Hold) {
	h.Details.Owner, _ = Text(doc.Lookup("owner"))
	h.Details.Host, _ = Text(doc.Lookup("host"))
	h.Details.Comment, _ = Text(doc.Lookup("comment"))
	h.Created, h.Renewed = Moment(doc.Lookup("createdAt")), Moment(doc.Lookup("renewedAt"))
}
