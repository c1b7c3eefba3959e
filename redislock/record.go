package redislock

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// described is the description of a record in a reply, see acquire.lua.
type described struct {
	now    model.Time
	record model.Record // with the places ahead of a refused request, or all places
	// Of a refused request: its position in the queue, and how many wait.
	position, waiters int
}

// decode reads the description of a record in a reply. The error is driver.ErrDamaged if
// that is not a record of this package. Invalid fields on which no decision depends are
// left out: owner, host, comment, and the times when a hold was created and renewed.
func (s *Store) decode(resource string, c *call) (d described, err error) {
	if c.err != nil {
		return d, s.explain(resource, c.err)
	}
	reply, _ := c.reply.([]any)
	if len(reply) != 5 {
		return d, s.wrap(fmt.Errorf("the reply of a script is a %T of length %d", c.reply, len(reply)))
	}
	now, ok := reply[0].(int64)
	if !ok {
		return d, s.wrap(fmt.Errorf("the server's time is a %T", reply[0]))
	}
	record, _ := reply[1].([]any)
	v := values{all: record}
	d.record.Resource = resource
	d.record.Token = uint64(v.number(0, driver.MaxToken))
	d.record.Holds = decodeAll(&v, record[min(2, len(record)):], "hold", decodeHold)
	slices.SortFunc(d.record.Holds, func(a, b model.Hold) int { return cmp.Compare(a.Token, b.Token) })
	position, _ := reply[2].(int64)
	waiters, _ := reply[3].(int64)
	places, _ := reply[4].([]any)
	d.record.Places = decodeAll(&v, places, "place", decodePlace)
	if v.err != nil {
		return d, damaged(resource, v.err)
	}
	d.now, d.position, d.waiters = model.Time(now), int(position), int(waiters)
	return d, nil
}

func damaged(resource string, err error) error {
	return fmt.Errorf("%w: the key of %q: %w", driver.ErrDamaged, resource, err)
}

// values are the elements of an array in a reply. The first that is not what it must be
// makes the error.
type values struct {
	all []any
	err error
}

// decodeAll decodes the holds or the places of a record. Their first error becomes that of
// the record.
func decodeAll[T any](record *values, parts []any, what string, decode func(*values) T) (all []T) {
	for i, part := range parts {
		v := values{}
		v.all, _ = part.([]any)
		all = append(all, decode(&v))
		if v.err != nil {
			record.fail("%s %d: %w", what, i, v.err)
		}
	}
	return all
}

func (v *values) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

func (v *values) at(i int) any {
	if i < len(v.all) {
		return v.all[i]
	}
	return nil
}

func (v *values) text(i int) string {
	s, ok := v.at(i).(string)
	if !ok {
		v.fail("value %d: not a string", i)
	}
	return s
}

func (v *values) number(i int, most int64) int64 {
	n, ok := v.at(i).(int64)
	if !ok || n < 0 || n > most {
		v.fail("value %d: not a number from 0 to %d", i, most)
	}
	return n
}

// detail returns a text on which no decision depends, "" if it is invalid.
func (v *values) detail(i int) string {
	s, _ := v.at(i).(string)
	return s
}

// moment returns a time on which no decision depends, 0 if it is invalid.
func (v *values) moment(i int) model.Time {
	t, _ := v.at(i).(int64)
	return model.Time(max(t, 0))
}

// common returns what holds and places have in common: ID, lock ID, mode and limit.
func (v *values) common() (id driver.HoldID, lockID string, mode driver.Mode, limit int) {
	id, err := driver.ParseHoldID(v.text(0))
	lockID = v.text(1)
	if err != nil || id.IsZero() || lockID == "" {
		v.fail("its ID is not 24 hex digits, or it has no lock ID")
	}
	mode = driver.Mode(v.number(2, int64(driver.Shared)))
	if mode == driver.Shared {
		limit = int(v.number(3, math.MaxInt))
	}
	return id, lockID, mode, limit
}

func decodeHold(v *values) (h model.Hold) {
	h.HoldID, h.LockID, h.Mode, h.Limit = v.common()
	h.Token = uint64(v.number(4, driver.MaxToken))
	h.End = model.Time(v.number(5, never))
	if h.End == never {
		h.End = model.NoEnd
	}
	h.TakeoverDelay = time.Duration(v.number(6, driver.MaxTTL.Microseconds())) * time.Microsecond
	h.Released = v.number(7, 1) == 1
	h.Created, h.Renewed = v.moment(8), v.moment(9)
	h.Details = driver.Details{Owner: v.detail(10), Host: v.detail(11), Comment: v.detail(12)}
	return h
}

func decodePlace(v *values) (p model.Place) {
	var id driver.HoldID
	id, p.LockID, p.Mode, p.Limit = v.common()
	p.ID = driver.PlaceID(id)
	p.Owner, p.Host = v.detail(4), v.detail(5)
	p.Since, p.Asked = v.moment(6), model.Time(v.number(7, never))
	p.Until = model.Time(v.number(8, never))
	p.Fair = v.number(9, 1) == 1
	return p
}
