package pglock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
)

// chunk is how many requests a statement has at most. Their rows are locked until
// it commits.
const chunk = 500

// Renew implements driver.Store: a round trip for each 500, over a connection that
// is not the caller's.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	failed := func(i int, err error) { results[i] = driver.RenewResult{Left: driver.Unknown, Err: err} }
	s.batch(ctx, len(qs), failed, func(items []int, wait bool) error {
		refs := makeRefs(items, func(i int) driver.HoldRef { return qs[i].HoldRef })
		ttls, exact := make([]int64, len(items)), make([]bool, len(items))
		for at, i := range items {
			ttls[at], exact[at] = millis(qs[i].TTL), qs[i].Exact
		}
		args := append(refs.args(), ttls, exact, wait)
		return s.askBare(ctx, s.fromOwn, s.do.renew, args, func(rows pgx.Rows) error {
			var item int64
			var outcome int32
			var clock, ends *int64
			if err := rows.Scan(&item, &outcome, &clock, &ends); err != nil {
				return err
			}
			i := items[item-1]
			q, r := &qs[i], &results[i]
			*r = driver.RenewResult{Left: driver.Unknown}
			switch outcome {
			case done:
				r.Left = driver.Forever
				if ends != nil {
					r.Left = time.Duration(*ends-*clock) * time.Microsecond
				}
			case not:
				r.Err = fmt.Errorf("hold of %q by lock ID %q: %w", q.Resource, q.LockID, driver.ErrLost)
			case damaged:
				r.Err = damagedRecord(q.Resource)
			case busy:
				r.Err = ErrBusy
			default:
				return fmt.Errorf("outcome %d of a renewal", outcome)
			}
			return nil
		})
	}, func(i int) bool { return errors.Is(results[i].Err, ErrBusy) })
	return results, nil
}

// Release implements driver.Store: a round trip for each 500.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	failed := func(i int, err error) { results[i] = driver.ReleaseResult{Err: err} }
	s.batch(ctx, len(qs), failed, func(items []int, wait bool) error {
		refs := makeRefs(items, func(i int) driver.HoldRef { return qs[i].HoldRef })
		afters := make([]int64, len(items))
		for at, i := range items {
			afters[at] = qs[i].After.Milliseconds()
		}
		args := append(refs.args(), afters, wait)
		return s.ask(ctx, s.fromEither, s.do.release, args, func(rows pgx.Rows) error {
			var item int64
			var outcome int32
			if err := rows.Scan(&item, &outcome); err != nil {
				return err
			}
			i := items[item-1]
			r := &results[i]
			*r = driver.ReleaseResult{Found: outcome == done}
			switch outcome {
			case done, not:
			case damaged:
				r.Err = damagedRecord(qs[i].Resource)
			case busy:
				r.Err = ErrBusy
			default:
				return fmt.Errorf("outcome %d of a release", outcome)
			}
			return nil
		})
	}, func(i int) bool { return errors.Is(results[i].Err, ErrBusy) })
	return results, nil
}

// patience is how often a row is waited for that others have locked, half a second
// each time. Many who come and go pass it on to one another in the order they came
// in; one transaction that keeps it must not keep a connection of the pool, too.
const patience = 3

// batch sends requests, by their numbers, in chunks. Those whose rows others have
// locked are sent again, to wait for them: as a rule that is over at once, and
// most batches have none. What fails as a whole is unknown, each item of it: what
// other chunks came to is not.
func (s *Store) batch(ctx context.Context, n int, failed func(i int, err error),
	send func(items []int, wait bool) error, isLocked func(i int) bool,
) {
	for from := 0; from < n; from += chunk {
		items := make([]int, min(chunk, n-from))
		for at := range items {
			items[at] = from + at
			failed(items[at], errMissing) // unless the answer has it
		}
		var err error
		for range patience {
			if n > 1 { // one alone keeps no others waiting
				if err = send(items, false); err != nil {
					break
				}
				items = slices.DeleteFunc(items, func(i int) bool { return !isLocked(i) })
			}
			if len(items) == 0 {
				break
			}
			if err = send(items, true); !hasCode(err, lockTimeout) {
				break
			}
		}
		if err == nil {
			continue
		}
		for _, i := range items {
			failed(i, err)
		}
	}
}

var errMissing = errors.New("the server's answer lacks it")

// refs are the references of a batch, as columns.
type refs struct {
	resources, lockIDs, holdIDs []string
	tokens                      []int64
}

func makeRefs(items []int, ref func(i int) driver.HoldRef) refs {
	n := len(items)
	r := refs{make([]string, n), make([]string, n), make([]string, n), make([]int64, n)}
	for at, i := range items {
		h := ref(i)
		r.resources[at], r.lockIDs[at], r.holdIDs[at], r.tokens[at] = h.Resource, h.LockID, h.HoldID.String(), int64(h.Token)
	}
	return r
}

func (r refs) args() []any { return []any{r.resources, r.lockIDs, r.holdIDs, r.tokens} }
