package redislock

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// slack is by how much more than it must be the expiry of a key is ahead, so that it
// can be kept for a while. See record.lua.
func (o *Options) slack() time.Duration { return max(o.Retention/32, time.Minute) }

// Acquire implements driver.Store.
//
// A repeat that finds its hold is answered from the record, after it was written as it
// is: the first attempt may have had no answer because no replica had it.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	// How long the key must stay, and stays if it is new.
	need, first := int64(never), int64(0)
	limited := q.Mode == driver.Shared && !q.OwnLimit // for which a key has MessagePack
	if slack := s.o.slack(); !limited && q.TTL <= slack && q.TakeoverDelay <= slack-q.TTL {
		stays := q.TTL + q.TakeoverDelay + s.o.Retention
		need, first = stays.Microseconds(), (stays + slack).Milliseconds()
	}
	own := ""
	if q.OwnLimit {
		own = "own"
	}
	c := &call{
		script: acquire, key: s.key(q.Resource), written: granted,
		terms: newTerms(own, s.o.Retention.Microseconds(), need, first, int64(q.Limit)), item: hold(&q),
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

// granted: the reply is a token, or says that the hold of a repeat was written again.
func granted(reply any) bool {
	parts, refused := reply.([]any)
	return !refused || len(parts) == 4
}
