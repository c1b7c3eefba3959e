package mongodoc

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// seen are the fields of a document that the store reads.
func (l *layout) seen() bson.D {
	fields := obj("_id", 1, added, 1, mongokit.NowField, "$$NOW")
	for _, field := range l.fields {
		fields = append(fields, bson.E{Key: field, Value: 1})
	}
	return fields
}

// decode reads a document. If a field that decisions depend on is invalid, the error is
// driver.ErrDamaged. An invalid owner or date of creation is left out.
func (s *Store) decode(st *statements, raw bson.Raw) (f mongokit.Found) {
	f.Record.Resource, _ = mongokit.Text(raw.Lookup("_id"))
	if f.Now, f.Err = s.coll.Now(raw); f.Err != nil {
		return f
	}
	if err := st.decode(raw, &f.Record); err != nil {
		f.Err = fmt.Errorf("%w: %q: %v", driver.ErrDamaged, f.Record.Resource, err)
		f.Record = model.Record{Resource: f.Record.Resource}
	}
	return f
}

func (l *layout) decode(raw bson.Raw, r *model.Record) error {
	o, err := l.read(raw)
	if err != nil {
		return err
	}
	ours, err := mongokit.Object(raw.Lookup(added))
	if err != nil {
		return fmt.Errorf("field %s %v", added, err)
	}
	token, err := mongokit.Number(ours.Lookup("token"))
	if err != nil || token < 0 || token > driver.MaxToken {
		return fmt.Errorf("field %s.token is not a token", added)
	}
	touched, err := mongokit.Number(ours.Lookup("touched"))
	if err != nil {
		return fmt.Errorf("field %s.touched is not a number", added)
	}
	r.Token, r.Touched = uint64(token), model.Time(touched)
	h := model.Hold{LockID: o.lockID, Created: o.since, End: o.end}
	if l.own(raw, ours) {
		if mongokit.Absent(ours.Lookup("lockId")) {
			return nil
		}
		if err := ownHold(ours, &h); err != nil {
			return fmt.Errorf("field %s: %v", added, err)
		}
		if !h.HoldID.IsZero() {
			h.Token = r.Token
		}
	}
	if o.taken {
		r.Holds = []model.Hold{h}
	}
	return nil
}

// own reports whether Holdfast wrote the present fields of the layout.
func (l *layout) own(raw, ours bson.Raw) bool {
	shown, err := mongokit.Object(ours.Lookup("shown"))
	if err != nil || shown == nil {
		return false
	}
	for _, field := range l.fields {
		if !same(shown.Lookup(field), raw.Lookup(field)) {
			return false
		}
	}
	return true
}

// same compares values of a layout as the server's $eq does.
func same(a, b bson.RawValue) bool {
	if mongokit.Absent(a) || mongokit.Absent(b) {
		return mongokit.Absent(a) && mongokit.Absent(b)
	}
	x, isX := a.AsFloat64OK()
	y, isY := b.AsFloat64OK()
	if isX && isY {
		return x == y
	}
	return a.Equal(b)
}

// ownHold reads the fields that Holdfast wrote about a hold.
func ownHold(ours bson.Raw, h *model.Hold) (err error) {
	if h.LockID, err = mongokit.Text(ours.Lookup("lockId")); err != nil || h.LockID == "" {
		return errors.New("its lockId is not a valid name")
	}
	end, is, err := dateOf(ours, "end")
	if err != nil {
		return err
	}
	h.End = model.NoEnd
	if is {
		h.End = end
	}
	mongokit.ReadDetails(ours, h)
	return mongokit.ReadHold(ours, h)
}
