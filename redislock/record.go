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
	// For a refused request: its position in the queue, and the number of waiters.
	position, waiters int
}

// decode reads the description of a record in a reply. The error is driver.ErrDamaged if
// this package cannot have written the record. It leaves out invalid values of fields
// that decide nothing: owner, host, comment, and the times when a hold was created and
// renewed.
func (s *Store) decode(resource string, c *call) (d described, err error) {
	if c.err != nil {
		return d, s.explain(resource, c.err)
	}
	parts, _ := c.reply.([]any)
	if len(parts) < 3 {
		return d, s.wrap(fmt.Errorf("the reply of a script is a %T", c.reply))
	}
	now, ok := parts[0].(int64)
	if !ok {
		return d, s.wrap(fmt.Errorf("the server's time is a %T", parts[0]))
	}
	d.now, d.position = model.Time(now), driver.NoPlace
	if d.record, err = decodeRecord(parts[1], parts[2]); err != nil {
		return d, damaged(resource, err)
	}
	d.record.Resource = resource
	if len(parts) < 6 { // nobody waits
		return d, nil
	}
	position, _ := parts[3].(int64)
	waiters, _ := parts[4].(int64)
	d.position, d.waiters = int(position), int(waiters)
	if d.record.Places, err = decodePlaces(parts[5]); err != nil {
		return d, damaged(resource, err)
	}
	return d, nil
}

func damaged(resource string, err error) error {
	return fmt.Errorf("%w: the key of %q: %w", driver.ErrDamaged, resource, err)
}

func decodeRecord(value, ofHolds any) (r model.Record, err error) {
	parts, ok := value.([]any)
	limits, several := ofHolds.([]any)
	if !ok || !several || len(parts) != 2+len(limits) {
		return r, fmt.Errorf("it is not a record")
	}
	token, ok := parts[0].(int64)
	if !ok || token < 0 || token > driver.MaxToken {
		return r, fmt.Errorf("it has no token")
	}
	r.Token = uint64(token)
	for i, part := range parts[2:] {
		h, err := decodeHold(part)
		if err != nil {
			return r, fmt.Errorf("hold %d: %w", i, err)
		}
		if h.Mode == driver.Shared {
			limit, _ := limits[i].(int64) // the script has checked it
			h.Limit = int(limit)
		}
		r.Holds = append(r.Holds, h)
	}
	slices.SortFunc(r.Holds, func(a, b model.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return r, nil
}

// values are the elements of an array in a reply. The first invalid element sets the
// error.
type values struct {
	all []any
	err error
}

func valuesOf(value any, n int) values {
	all, ok := value.([]any)
	if !ok || len(all) != n {
		return values{make([]any, n), fmt.Errorf("want %d values", n)}
	}
	return values{all: all}
}

func (v *values) text(i int) string {
	s, ok := v.all[i].(string)
	if !ok && v.err == nil {
		v.err = fmt.Errorf("value %d: not a string", i)
	}
	return s
}

func (v *values) number(i int, most int64) int64 {
	n, ok := v.all[i].(int64)
	if v.err == nil && (!ok || n < 0 || n > most) {
		v.err = fmt.Errorf("value %d: not a number from 0 to %d", i, most)
	}
	return n
}

func decodeHold(value any) (h model.Hold, err error) {
	v := valuesOf(value, 12)
	id := v.text(0)
	h.LockID = v.text(1)
	h.Mode = driver.Mode(v.number(2, int64(driver.Shared)))
	h.Token = uint64(v.number(3, driver.MaxToken))
	h.End = model.Time(v.number(4, never))
	h.TakeoverDelay = time.Duration(v.number(5, driver.MaxTTL.Microseconds())) * time.Microsecond
	h.Released = v.number(6, 1) == 1
	h.Created, h.Renewed = moment(v.all[7]), moment(v.all[8])
	h.Details.Owner, _ = v.all[9].(string)
	h.Details.Host, _ = v.all[10].(string)
	h.Details.Comment, _ = v.all[11].(string)
	if v.err != nil {
		return h, v.err
	}
	if h.End == never {
		h.End = model.NoEnd
	}
	if h.HoldID, err = driver.ParseHoldID(id); err != nil || h.HoldID.IsZero() {
		return h, fmt.Errorf("its ID is not 24 hex digits")
	}
	if h.LockID == "" || h.Token == 0 {
		return h, fmt.Errorf("it has no lock ID or no token")
	}
	return h, nil
}

func decodePlaces(value any) (all []model.Place, err error) {
	places, _ := value.([]any)
	for i, place := range places {
		p, err := decodePlace(place)
		if err != nil {
			return nil, fmt.Errorf("place %d: %w", i, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func decodePlace(value any) (p model.Place, err error) {
	v := valuesOf(value, 10)
	id := v.text(0)
	p.LockID = v.text(1)
	p.Mode = driver.Mode(v.number(2, int64(driver.Shared)))
	if p.Mode == driver.Shared {
		p.Limit = int(v.number(3, math.MaxInt))
	}
	p.Owner, _ = v.all[4].(string)
	p.Host, _ = v.all[5].(string)
	p.Since, p.Asked = moment(v.all[6]), model.Time(v.number(7, never))
	p.Until = model.Time(v.number(8, never))
	p.Fair = v.number(9, 1) == 1
	if v.err != nil {
		return p, v.err
	}
	if p.ID.UnmarshalText([]byte(id)) != nil || p.ID.IsZero() || p.LockID == "" {
		return p, fmt.Errorf("its ID is not 24 hex digits, or it has no lock ID")
	}
	return p, nil
}

func moment(value any) model.Time {
	t, _ := value.(int64)
	return model.Time(max(t, 0))
}
