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
		ids(driver.HoldRef{LockID: q.LockID, HoldID: q.HoldID}), hold(&q), q.Limit, need, first, s.o.Retention.Microseconds(),
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
	return fmt.Sprintf("%d%016d%016d", q.Mode, micros(q.TTL), micros(q.TakeoverDelay)) +
		sized(q.Details.Owner) + sized(q.Details.Host) + sized(q.Details.Comment)
}
