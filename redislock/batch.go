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
		exact := "0"
		if q.Exact {
			exact = "1"
		}
		calls[i] = &call{
			script: renew, key: s.key(q.Resource), written: renewed,
			terms: newTerms(exact, s.o.Retention.Microseconds(), micros(q.TTL)), item: named(&q.HoldRef),
		}
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

// renewed: the reply is what is left of the hold.
func renewed(reply any) bool { return reply != int64(0) }

// Release implements driver.Store, as Renew.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	calls := make([]*call, len(qs))
	for i, q := range qs {
		calls[i] = &call{
			script: release, key: s.key(q.Resource),
			terms: newTerms(s.publish(), micros(q.After), s.o.Retention.Microseconds()), item: named(&q.HoldRef),
		}
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

// number is the reply to a call that is one.
func number(c *call) (int64, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, ok := c.reply.(int64)
	if !ok {
		return 0, fmt.Errorf("the reply of a script is a %T", c.reply)
	}
	return n, nil
}
