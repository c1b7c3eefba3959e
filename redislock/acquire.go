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
	// How long the key must stay, and stays if it is new.
	need, first := int64(never), int64(0)
	if longest := q.TTL/2 + q.TakeoverDelay/2; q.TTL != driver.Forever && longest < s.o.Retention {
		need = (q.TTL + q.TakeoverDelay + s.o.Retention).Microseconds()
		first = (q.TTL + q.TakeoverDelay + 2*s.o.Retention).Milliseconds()
	}
	c := &call{
		script: acquire, key: s.key(q.Resource), durable: true,
		terms: newTerms("", s.o.Retention.Microseconds(), need, first, int64(q.Limit)), item: hold(&q),
	}
	if err := s.ask(ctx, c); err != nil {
		return driver.Grant{}, err
	}
	if c.err != nil {
		return driver.Grant{}, s.blame(q.Resource, c.err)
	}
	if token, ok := c.reply.(int64); ok {
		return driver.Grant{Token: uint64(token), Left: q.TTL}, nil
	}
	now, r, err := decode(q.Resource, c.reply)
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
