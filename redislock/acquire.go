package redislock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Acquire implements driver.Store.
//
// The script changes nothing where it finds a hold of the lock ID: a repeat, by
// whomever, is answered from the record as it is.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	retention := s.o.Retention.Milliseconds()
	var alone int64 // how long the key lives; 0 is not used
	if q.TTL != driver.Forever {
		alone = (q.TTL + q.TakeoverDelay).Milliseconds() + retention
	}
	c := &call{script: acquire, key: s.key(q.Resource), durable: true, args: []any{
		q.HoldID.String(), q.LockID, int(q.Mode), q.Limit, micros(q.TTL), micros(q.TakeoverDelay),
		q.Details.Owner, q.Details.Host, q.Details.Comment, retention, alone,
	}}
	if err := s.ask(ctx, c); err != nil {
		return driver.Grant{}, err
	}
	reply, err := c.result()
	if err != nil {
		return driver.Grant{}, s.blame(q.Resource, err)
	}
	if token, ok := reply.(int64); ok {
		return driver.Grant{Token: uint64(token), Left: q.TTL}, nil
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
