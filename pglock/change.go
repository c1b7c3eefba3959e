package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// chunk is how many requests a statement has at most. Their rows are locked until
// it commits.
const chunk = 500

// patience is how often a store waits for a row that others have locked, half a
// second each time. Short transactions pass the row on in the order in which they
// came. A transaction that keeps it must not occupy a connection of the pool, too.
const patience = 3

// change is one renewal or release of a batch, and its outcome.
type change struct {
	driver.HoldRef
	ms    int64          // the TTL of a renewal; how much later a release takes effect
	place driver.PlaceID // that is given up

	found   bool
	left    time.Duration
	waiters int
	err     error
}

// changed is the row that function change returns.
type changed struct {
	outcome
	Waiters int
}

func (a *changed) read(c *columns) {
	a.outcome.read(c)
	a.Waiters = c.int()
}

// Renew implements driver.Store: one round trip for each 500, over a connection that
// is not the caller's.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	changes := make([]change, len(qs))
	for i, q := range qs {
		changes[i] = change{HoldRef: q.HoldRef, ms: millis(q.TTL)}
	}
	if err := s.change(ctx, s.fromOwn, s.do.renew, changes, false); err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i, c := range changes {
		if c.err == nil && !c.found {
			c.err = fmt.Errorf("hold of %q by lock ID %q: %w", c.Resource, c.LockID, driver.ErrLost)
		}
		results[i] = driver.RenewResult{Left: c.left, Waiters: c.waiters, Err: c.err}
	}
	return results, nil
}

// Release implements driver.Store: one round trip for each 500.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	changes := make([]change, len(qs))
	for i, q := range qs {
		changes[i] = change{HoldRef: q.HoldRef, ms: q.After.Milliseconds(), place: q.Place}
	}
	if err := s.change(ctx, s.fromEither, s.do.release, changes, true); err != nil {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	for i, c := range changes {
		results[i] = driver.ReleaseResult{Found: c.found, Err: c.err}
	}
	return results, nil
}

// change sends the changes in chunks. It sends changes of rows that other
// transactions have locked again, to wait for them. Usually that wait is short, and
// most batches have no such rows. If a chunk fails, its changes are unknown; those of
// other chunks are not.
//
// The changes are sorted by resource: batches lock rows in one order.
func (s *Store) change(ctx context.Context, from source, q statement, changes []change, release bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	sorted := make([]*change, len(changes))
	for i := range changes {
		changes[i].left = driver.Unknown
		sorted[i] = &changes[i]
	}
	slices.SortStableFunc(sorted, func(a, b *change) int { return cmp.Compare(a.Resource, b.Resource) })
	for some := range slices.Chunk(sorted, chunk) {
		var err error
		for range patience {
			if len(changes) > 1 { // a single change delays no others
				if err = s.send(ctx, from, q, some, release, false); err != nil {
					break
				}
				some = slices.DeleteFunc(some, func(c *change) bool { return !errors.Is(c.err, ErrBusy) })
			}
			if len(some) == 0 {
				break
			}
			if err = s.send(ctx, from, q, some, release, true); !errors.Is(err, ErrBusy) {
				break
			}
		}
		if err != nil {
			for _, c := range some {
				c.err = err
			}
		}
	}
	return nil
}

// send sends one statement for the changes, and notes their outcomes.
func (s *Store) send(ctx context.Context, from source, q statement, changes []*change, release, wait bool) error {
	n := len(changes)
	resources, lockIDs, holdIDs, places := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	tokens, ms := make([]int64, n), make([]int64, n)
	for i, c := range changes {
		resources[i], lockIDs[i], holdIDs[i], places[i] = c.Resource, c.LockID, c.HoldID.String(), c.place.String()
		tokens[i], ms[i] = int64(c.Token), c.ms
	}
	answer, err := ask[changed](ctx, s, from, q, resources, lockIDs, holdIDs, tokens, ms, places, release, wait)
	if err != nil {
		return err
	}
	if len(answer) != n {
		return fmt.Errorf("PostgreSQL schema %s: %d answers to %d requests", s.schema, len(answer), n)
	}
	for i, c := range changes {
		c.found, c.err = answer[i].Outcome == done, nil
		switch answer[i].Outcome {
		case done:
			c.left, c.waiters = answer[i].left(), answer[i].Waiters
		case not:
		case busy:
			c.err = ErrBusy
		default:
			c.err = answer[i].failure(c.Resource)
		}
	}
	return nil
}
