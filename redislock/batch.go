package redislock

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew implements driver.Store. The requests to one server travel together, in
// pipelines of 500.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	calls := make([]*call, len(qs))
	for i, q := range qs {
		calls[i] = &call{script: renew, key: s.key(q.Resource), durable: true, once: q.HoldID.IsZero(), args: []any{
			ids(&q.HoldRef), int64(q.Token), micros(q.TTL), flag(q.Exact), s.o.Retention.Microseconds(),
		}}
	}
	if err := s.ask(ctx, calls...); err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i, q := range qs {
		results[i] = driver.RenewResult{Left: driver.Unknown}
		left, err := number(calls[i])
		switch {
		case err != nil:
			results[i].Err = s.blame(q.Resource, err)
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

// Release implements driver.Store, as Renew.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	calls := make([]*call, len(qs))
	for i, q := range qs {
		calls[i] = &call{script: release, key: s.key(q.Resource), once: q.HoldID.IsZero(), args: []any{
			ids(&q.HoldRef), int64(q.Token), micros(q.After), s.o.Retention.Microseconds(), s.publish(), alone(&q),
		}}
	}
	if err := s.ask(ctx, calls...); err != nil {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	for i, q := range qs {
		found, err := number(calls[i])
		if err != nil {
			err = s.blame(q.Resource, err)
		}
		results[i] = driver.ReleaseResult{Found: found == 1, Err: err}
	}
	return results, nil
}

// alone is what a key begins with if the hold is alone and as it was granted.
func alone(q *driver.ReleaseRequest) string {
	if q.Token == 0 || q.HoldID.IsZero() || q.After > 0 {
		return "-"
	}
	return string(appendDigits([]byte{'F'}, 16, q.Token))
}

// number is the reply to a call that is one.
func number(c *call) (int64, error) {
	reply, err := c.result()
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("the reply of a script is a %T", reply)
	}
	return n, nil
}
