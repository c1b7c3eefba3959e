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

// decode reads the description of a record in a reply, see acquire.lua. The error is
// driver.ErrDamaged if that is not a record of this package. Invalid fields on which no
// decision depends are left out: owner, host, comment, and the times when a hold was
// created and renewed.
func (s *Store) decode(resource string, c *call) (model.Time, model.Record, error) {
	none := model.Record{Resource: resource}
	if c.err != nil {
		return 0, none, s.explain(resource, c.err)
	}
	parts, _ := c.reply.([]any)
	if len(parts) < 3 {
		return 0, none, s.wrap(fmt.Errorf("the reply of a script is a %T", c.reply))
	}
	now, ok := parts[0].(int64)
	if !ok {
		return 0, none, s.wrap(fmt.Errorf("the server's time is a %T", parts[0]))
	}
	r, err := decodeRecord(parts[1], parts[2])
	if err != nil {
		return 0, none, damaged(resource, err)
	}
	r.Resource = resource
	return model.Time(now), r, nil
}

func damaged(resource string, err error) error {
	return fmt.Errorf("%w: the key of %q: %w", driver.ErrDamaged, resource, err)
}

func decodeRecord(value, ofHolds any) (r model.Record, err error) {
	fields, ok := value.([]any)
	limits, several := ofHolds.([]any)
	if !ok || !several || len(fields) != 2+len(limits) {
		return r, fmt.Errorf("it is no record")
	}
	token, ok := fields[0].(int64)
	if !ok || token < 0 || token > driver.MaxToken {
		return r, fmt.Errorf("it has no token")
	}
	r.Token = uint64(token)
	for i, field := range fields[2:] {
		h, err := decodeHold(field)
		if err != nil {
			return r, fmt.Errorf("hold %d: %w", i, err)
		}
		if h.Mode == driver.Shared {
			h.Limit = limitOf(limits[i])
		}
		r.Holds = append(r.Holds, h)
	}
	slices.SortFunc(r.Holds, func(a, b model.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return r, nil
}

func decodeHold(value any) (h model.Hold, err error) {
	fields, ok := value.([]any)
	if !ok || len(fields) != 12 {
		return h, fmt.Errorf("it is not 12 values")
	}
	text := func(i int) (s string) {
		s, ok := fields[i].(string)
		if !ok && err == nil {
			err = fmt.Errorf("value %d is no text", i)
		}
		return s
	}
	number := func(i int, most int64) int64 {
		n, ok := fields[i].(int64)
		if err == nil && (!ok || n < 0 || n > most) {
			err = fmt.Errorf("value %d is not a number from 0 to %d", i, most)
		}
		return n
	}
	id := text(0)
	h.LockID = text(1)
	h.Mode = driver.Mode(number(2, int64(driver.Shared)))
	h.Token = uint64(number(3, driver.MaxToken))
	h.End = model.Time(number(4, never))
	h.TakeoverDelay = time.Duration(number(5, driver.MaxTTL.Microseconds())) * time.Microsecond
	h.Released = number(6, 1) == 1
	h.Created, h.Renewed = moment(fields[7]), moment(fields[8])
	h.Details.Owner, _ = fields[9].(string)
	h.Details.Host, _ = fields[10].(string)
	h.Details.Comment, _ = fields[11].(string)
	if err != nil {
		return h, err
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

// limitOf returns driver.LimitUnknown for the hold of a program that kept no limit.
func limitOf(value any) int {
	n, ok := value.(int64)
	if !ok || n < 0 || n > math.MaxInt {
		return driver.LimitUnknown
	}
	return int(n)
}

func moment(value any) model.Time {
	t, _ := value.(int64)
	return model.Time(max(t, 0))
}
