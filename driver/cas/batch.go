package cas

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	results := make([]driver.RenewResult, len(qs))
	err := s.each(ctx, len(qs),
		func(i int) string { return qs[i].Resource },
		func(i int, r model.Record, now model.Time) (model.Record, bool, bool) {
			r, results[i] = model.Renew(r, now, qs[i])
			return r, results[i].Err == nil, false
		},
		func(i int, err error) { results[i] = driver.RenewResult{Left: driver.Unknown, Err: err} })
	return results, err
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	results := make([]driver.ReleaseResult, len(qs))
	err := s.each(ctx, len(qs),
		func(i int) string { return qs[i].Resource },
		func(i int, r model.Record, now model.Time) (model.Record, bool, bool) {
			r, found := model.Release(r, now, qs[i])
			results[i] = driver.ReleaseResult{Found: found}
			return r, found, found
		},
		func(i int, err error) { results[i] = driver.ReleaseResult{Err: err} })
	return results, err
}

// apply makes the i-th request's change to a record.
type apply func(i int, r model.Record, now model.Time) (_ model.Record, changed, wake bool)

// each applies n requests to their resources. Those on one resource are applied
// in order, in one change. fail is told the requests whose outcome is unknown.
func (s *Store) each(ctx context.Context, n int, resource func(int) string, do apply, fail func(int, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n == 1 { // as most are; what several need would be a tenth of its cost
		err := s.change(ctx, resource(0), func(e Entry) (c Change, changed bool) {
			c.New, changed, c.Wake = do(0, e.Record, e.Now)
			return c, changed
		})
		if err != nil {
			fail(0, err)
		}
		return nil
	}
	groups := group(n, resource)
	if s.batcher != nil {
		rest, err := s.batch(ctx, groups, resource, do)
		if !errors.Is(err, driver.ErrDamaged) {
			for _, g := range rest {
				for _, i := range g {
					fail(i, err)
				}
			}
			return nil
		}
		// One damaged record must not cost all others their renewal: go through
		// what is left one by one, so that only it fails.
		groups = rest
	}
	for _, g := range groups {
		if err := s.one(ctx, resource(g[0]), g, do); err != nil {
			for _, i := range g {
				fail(i, err)
			}
		}
	}
	return nil
}

// group collects the indexes of the requests by resource, in order.
func group(n int, resource func(int) string) [][]int {
	groups := make([][]int, 0, n)
	at := make(map[string]int, n)
	for i := range n {
		g, ok := at[resource(i)]
		if !ok {
			g = len(groups)
			at[resource(i)] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// one applies the requests of one resource.
func (s *Store) one(ctx context.Context, resource string, requests []int, do apply) error {
	return s.change(ctx, resource, func(e Entry) (Change, bool) {
		return together(e, requests, do)
	})
}

// together makes one change of all requests on a record.
func together(e Entry, requests []int, do apply) (c Change, changed bool) {
	c = Change{Old: e.Version, New: e.Record}
	for _, i := range requests {
		r, did, wake := do(i, c.New, e.Now)
		c.New = r
		changed = changed || did
		c.Wake = c.Wake || wake
	}
	return c, changed
}

// batch applies all groups in two round trips, and again for those whose record
// others changed in between. It returns the groups that have no outcome.
func (s *Store) batch(ctx context.Context, groups [][]int, resource func(int) string, do apply) (rest [][]int, err error) {
	rest = groups
	for range maxTries {
		if len(rest) == 0 {
			return nil, nil
		}
		names := make([]string, len(rest))
		for i, g := range rest {
			names[i] = resource(g[0])
		}
		entries, err := s.batcher.LoadAll(ctx, names)
		if err != nil {
			return rest, err
		}
		var changes []Change
		var pending [][]int
		for i, e := range entries {
			if c, changed := together(e, rest[i], do); changed {
				changes = append(changes, c)
				pending = append(pending, rest[i])
			}
		}
		done, err := s.swapAll(ctx, changes)
		if err != nil {
			return pending, err
		}
		rest = rest[:0:0]
		for i, ok := range done {
			if !ok {
				rest = append(rest, pending[i])
			}
		}
	}
	return rest, errBusy(resource(rest[0][0]))
}
