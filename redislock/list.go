package redislock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// page is the approximate number of keys that one SCAN requests.
const page = 500

// List implements driver.Store. Unless the filter names a resource, it finds the keys of
// the server by SCAN. In a Cluster it scans one master after the other, and can miss the
// keys of slots that move between masters in that time.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return model.Each(ctx, s.records(ctx, f.Resource), func(d described) []driver.Status {
		return model.Statuses(d.record, d.now, f)
	})
}

// Waiters implements driver.Queue, as List does.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return model.Each(ctx, s.records(ctx, f.Resource), func(d described) []driver.Place {
		return model.Places(d.record, d.now, f)
	})
}

// records yields the record of the resource, or all records, without the idle ones.
func (s *Store) records(ctx context.Context, resource string) iter.Seq2[described, error] {
	return func(yield func(described, error) bool) {
		for resources, err := range s.resources(ctx, resource) {
			if err != nil {
				yield(described{}, err)
				return
			}
			calls := make([]*call, len(resources))
			for i, resource := range resources {
				calls[i] = s.newCall(resource, []byte{look})
			}
			if err := s.do(ctx, calls...); err != nil {
				yield(described{}, err)
				return
			}
			for i, resource := range resources {
				if _, idle := calls[i].reply.(int64); idle && calls[i].err == nil {
					continue
				}
				if !yield(s.decode(resource, calls[i])) {
					return
				}
			}
		}
	}
}

// Sweep implements driver.Store. A store in Redis does not need it: the next acquire
// drops expired holds, and keys expire. So it deletes no records, whatever q.Idle is.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	for resources, err := range s.resources(ctx, "") {
		if err != nil {
			return total, err
		}
		for some := range slices.Chunk(resources, cmp.Or(q.Most, page)) {
			if q.Most > 0 && total.Holds >= q.Most {
				total.More = true
				return total, nil
			}
			if err := s.sweep(ctx, some, &total); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

func (s *Store) sweep(ctx context.Context, resources []string, total *driver.SweepResult) error {
	calls := make([]*call, len(resources))
	for i, resource := range resources {
		calls[i] = s.newCall(resource, []byte{sweep})
	}
	if err := s.do(ctx, calls...); err != nil {
		return err
	}
	for i, c := range calls {
		n, err := s.number(resources[i], c)
		if err != nil && !errors.Is(err, driver.ErrDamaged) { // the next acquire reports the damage
			return err
		}
		total.Holds += int(n)
	}
	return nil
}

// resources yields pages of the names of all resources with a key, each name at least
// once, or only the given name. It ends after the first error.
func (s *Store) resources(ctx context.Context, one string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		if one != "" {
			yield([]string{one}, nil)
			return
		}
		servers, err := s.servers(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, server := range servers {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				reply, err := within(ctx, func() (*redis.ScanCmd, error) {
					reply := server.Scan(ctx, cursor, escapeGlob(s.o.Prefix)+"*", page)
					return reply, reply.Err()
				})
				if err != nil {
					yield(nil, s.wrap(err))
					return
				}
				var keys []string
				keys, cursor = reply.Val()
				for i, key := range keys {
					keys[i] = strings.TrimPrefix(key, s.o.Prefix)
				}
				if len(keys) > 0 && !yield(keys, nil) {
					return
				}
			}
		}
	}
}

// within returns the result of f, or an error as soon as ctx ends: go-redis checks its
// context only before it sends.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, foreign.Error(ctx, r.err)
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// escapeGlob.Replace returns the pattern that matches only the given text.
var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace
