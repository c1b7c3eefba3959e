package redislock

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

func (s *Store) newCall(resource string, request []byte) *call {
	return &call{key: s.key(resource), request: request}
}

// Acquire implements driver.Store.
//
// A repeat that finds its hold gets its answer from the record. The script has written
// the record again: the first attempt may have failed because no replica had the hold.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	c := s.newCall(q.Resource, s.acquireRequest(&q))
	if err := s.do(ctx, c); err != nil {
		return driver.Grant{}, err
	}
	if token, ok := c.reply.(int64); ok && c.err == nil {
		return driver.Grant{Token: uint64(token), Left: q.TTL}, nil
	}
	d, err := s.decode(q.Resource, c)
	if err != nil {
		return driver.Grant{}, err
	}
	if !c.granted() {
		q.Place = driver.PlaceID{} // the place of the request is behind these
		held := model.Refused(d.record, d.now, q)
		held.Position, held.Waiters = d.position, d.waiters
		return driver.Grant{}, held
	}
	_, grant, changed, err := model.Acquire(d.record, d.now, q)
	if err == nil && changed {
		return driver.Grant{}, fmt.Errorf("redis key %q: the script granted a hold that is not there", c.key)
	}
	return grant, err
}

// Renew implements driver.Store. It sends the requests to one server together, up to 500
// in a batch.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	calls := make([]*call, len(qs))
	for i, q := range qs {
		calls[i] = s.newCall(q.Resource, refRequest(renew, q.TTL, &q.HoldRef))
	}
	if err := s.do(ctx, calls...); err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i, q := range qs {
		results[i] = driver.RenewResult{Left: driver.Unknown, Waiters: calls[i].waiters()}
		left, err := s.number(q.Resource, calls[i])
		switch {
		case err != nil:
			results[i].Err = err
		case left == 0:
			results[i].Err = fmt.Errorf("hold of %q by lock ID %q: %w", q.Resource, q.LockID, driver.ErrLost)
		case left < 0:
			results[i].Left = driver.Forever
		default:
			results[i].Left = time.Duration(left) * time.Microsecond
		}
	}
	return results, nil
}

// Release implements driver.Store. It sends its requests as Renew does.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	calls := make([]*call, len(qs))
	for i, q := range qs {
		request := refRequest(release, q.After, &q.HoldRef)
		if !q.Place.IsZero() {
			request = hex.AppendEncode(request, q.Place[:])
		}
		calls[i] = s.newCall(q.Resource, request)
	}
	if err := s.do(ctx, calls...); err != nil {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	for i, q := range qs {
		found, err := s.number(q.Resource, calls[i])
		results[i] = driver.ReleaseResult{Found: found == 1, Err: err}
	}
	return results, nil
}

// waiters returns the number of waiters in the reply to a renewal, and leaves the time in
// the reply.
func (c *call) waiters() (n int) {
	if both, ok := c.reply.([]any); ok && c.err == nil && len(both) == 2 {
		waiters, _ := both[1].(int64)
		c.reply, n = both[0], int(waiters)
	}
	return n
}

// number returns the reply as a number.
func (s *Store) number(resource string, c *call) (int64, error) {
	if c.err != nil {
		return 0, s.explain(resource, c.err)
	}
	n, ok := c.reply.(int64)
	if !ok {
		return 0, s.wrap(fmt.Errorf("the reply of a script is a %T", c.reply))
	}
	return n, nil
}
