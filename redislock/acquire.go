package redislock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Acquire implements driver.Store.
//
// The script changes nothing where it finds a hold of the lock ID: a repeat, by
// whomever, is answered from the record as it is.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	// How long the key must stay, and stays if it is new.
	need, first := int64(never), int64(0)
	if longest := q.TTL/2 + q.TakeoverDelay/2 + s.o.Retention; q.TTL != driver.Forever && longest < driver.MaxTTL/2 {
		need = (q.TTL + q.TakeoverDelay + s.o.Retention).Microseconds()
		first = (q.TTL + q.TakeoverDelay + 2*s.o.Retention).Milliseconds()
	}
	c := &call{script: acquire, key: s.key(q.Resource), durable: true, args: []any{
		ids(&driver.HoldRef{LockID: q.LockID, HoldID: q.HoldID}), hold(&q), q.Limit, need, first, s.o.Retention.Microseconds(),
	}}
	if err := s.ask(ctx, c); err != nil {
		return driver.Grant{}, err
	}
	reply, err := c.result()
	if err != nil {
		return driver.Grant{}, s.blame(q.Resource, err)
	}
	switch token := reply.(type) {
	case int64:
		return driver.Grant{Token: uint64(token), Left: q.TTL}, nil
	case string: // its digits
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return driver.Grant{}, fmt.Errorf("the token in a script's reply is %q", token)
		}
		return driver.Grant{Token: n, Left: q.TTL}, nil
	}
	now, r, err := decode(q.Resource, reply)
	if err != nil {
		return driver.Grant{}, err
	}
	q.Waiting = false // nothing is noted
	_, grant, changed, err := model.Acquire(r, now, q)
	if err == nil && changed {
		return driver.Grant{}, fmt.Errorf("redis key %q: the script refused what is free", s.key(q.Resource))
	}
	return grant, err
}

// hold is how a script has what is granted, but for its IDs.
func hold(q *driver.AcquireRequest) string {
	text := make([]byte, 0, 1+16+16+3*4+len(q.Details.Owner)+len(q.Details.Host)+len(q.Details.Comment))
	text = appendDigits(text, 1, uint64(q.Mode))
	text = appendDigits(text, 16, uint64(micros(q.TTL)))
	text = appendDigits(text, 16, uint64(micros(q.TakeoverDelay)))
	for _, detail := range [...]string{q.Details.Owner, q.Details.Host, q.Details.Comment} {
		text = appendSized(text, detail)
	}
	return string(text)
}
