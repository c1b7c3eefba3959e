package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// queueStores open a store of each kind. close closes it, and deletes its data.
var queueStores = []struct {
	name string
	open func(ctx context.Context, dir string) (s driver.Store, close func() error)
}{
	{"memory", func(context.Context, string) (driver.Store, func() error) {
		s := memlock.New(nil)
		return s, s.Close
	}},
	{"SQLite", func(ctx context.Context, dir string) (driver.Store, func() error) {
		s := must(sqlitelock.Open(ctx, filepath.Join(dir, "queue.db"), nil))
		return s, s.Close
	}},
	{"Redis", func(ctx context.Context, _ string) (driver.Store, func() error) {
		db := openRedis(ctx)
		return db.store, db.close
	}},
	{"PostgreSQL", func(ctx context.Context, _ string) (driver.Store, func() error) {
		db := openPostgres(ctx)
		return db.store, db.close
	}},
	{"MongoDB", func(ctx context.Context, _ string) (driver.Store, func() error) {
		db := openMongo(ctx, nil)
		s := mongolock.New(db.Collection("queue"), nil)
		return s, func() error { return errors.Join(s.Close(), db.close()) }
	}},
	{"OpenSearch", func(ctx context.Context, _ string) (driver.Store, func() error) {
		node := openSearch(ctx)
		s := eslock.New(node, &eslock.Options{Index: node.index})
		return s, func() error { return errors.Join(s.Close(), node.close()) }
	}},
}

// queueHold is the duration of each hold, and queueFor the time in which grants are counted.
const (
	queueHold = 10 * time.Millisecond
	queueFor  = 4 * time.Second
	// queueSettles is the time until many waiters ask at their slowest rate.
	queueSettles = 20 * time.Second
)

// measureQueue compares the grants of one resource to Clients that wait in turn with the grants
// without turns.
func measureQueue(ctx context.Context, dir string) []result {
	return inQueues(ctx, dir, queueOf)
}

// measureQueueRenewals compares the renewals of a holder with many waiters and of a holder
// without.
func measureQueueRenewals(ctx context.Context, dir string) []result {
	return inQueues(ctx, dir, queueRenewals)
}

// inQueues runs a measurement for each kind of store.
func inQueues(ctx context.Context, dir string, one func(ctx context.Context, name string, s driver.Store) []result) (all []result) {
	for _, kind := range queueStores {
		all = append(all, func() []result {
			store, closeStore := kind.open(ctx, dir)
			defer finish(closeStore)
			if i, ok := store.(driver.Initializer); ok {
				check(i.Init(ctx))
			}
			return one(ctx, kind.name, store)
		}()...)
	}
	return all
}

func queueOf(ctx context.Context, name string, store driver.Store) (results []result) {
	counts, least := []int{2, 8, scaled(500)}, 0.8
	if !store.Traits().Notifies {
		counts, least = counts[:2], 0.5
	}
	for _, clients := range counts {
		plain, _ := grants(ctx, store, clients, false)
		fair, asks := grants(ctx, store, clients, true)
		results = append(results, result{
			What: fmt.Sprintf("%s, %d fair Clients, grants per those without Fair", name, clients), Value: fair / plain, AtLeast: true, Limit: least,
			Detail: fmt.Sprintf("%.1f grants a second of a resource that is held for %v, %.1f without Fair; %.1f acquires a grant",
				fair, queueHold, plain, asks),
		})
	}
	return results
}

// renewalLimit is the factor by which waiters may slow down a renewal. SQLite and PostgreSQL
// decode the queue for each renewal.
var renewalLimit = map[string]float64{"memory": 2, "SQLite": 10, "Redis": 3, "PostgreSQL": 4, "MongoDB": 2}

func queueRenewals(ctx context.Context, name string, store driver.Store) []result {
	if !store.Traits().Notifies {
		return nil
	}
	alone, beside := renewalsBeside(ctx, store, scaled(500))
	return []result{{
		What: name + ", renewal beside 500 fair Clients per one alone, p99", Value: float64(beside) / float64(alone), Limit: renewalLimit[name],
		Detail: fmt.Sprintf("%.2f ms and %.2f ms", milliseconds(beside), milliseconds(alone)),
	}}
}

// grants returns how often per second Clients are granted a resource for which all of them
// compete, and the number of acquires for each grant.
func grants(ctx context.Context, s driver.Store, clients int, fair bool) (perSecond, asks float64) {
	store := &queued{counted: counted{Store: s}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var granted atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		all.Go(func() {
			c := holdfast.New(store, &holdfast.Options{NoSweep: true})
			for ctx.Err() == nil && errs[i] == nil {
				err := lockFor(ctx, c, "queue", &holdfast.LockOptions{Fair: fair}, &granted)
				if ctx.Err() == nil { // otherwise the measurement is over
					errs[i] = err
				}
			}
			errs[i] = errors.Join(errs[i], c.Close())
		})
	}
	time.Sleep(time.Second) // until the waiters have their places
	grantsBefore, asksBefore, began := granted.Load(), store.acquires.Load(), time.Now()
	time.Sleep(scaled(queueFor))
	n, took := granted.Load()-grantsBefore, time.Since(began)
	asks = float64(store.acquires.Load()-asksBefore) / float64(max(n, 1))
	cancel()
	all.Wait()
	check(errors.Join(errs...))
	return float64(n) / took.Seconds(), asks
}

func lockFor(ctx context.Context, c *holdfast.Client, resource string, o *holdfast.LockOptions, granted *atomic.Int64) error {
	h, err := c.Lock(ctx, resource, o)
	if err != nil {
		return err
	}
	granted.Add(1)
	time.Sleep(queueHold)
	return h.Unlock(context.WithoutCancel(ctx))
}

// queued is a counted store with a queue.
type queued struct{ counted }

// Waiters implements driver.Queue.
func (q *queued) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, q.Store, f)
}

// renewalsBeside returns the 99th percentile of the duration of a renewal, alone and while
// Clients wait in turn for the resource.
func renewalsBeside(ctx context.Context, s driver.Store, clients int) (alone, beside time.Duration) {
	holder := holdfast.New(s, &holdfast.Options{NoSweep: true})
	defer finish(holder.Close)
	h := must(holder.Lock(ctx, "renewed", nil))
	alone = renewalP99(ctx, h)
	wait, cancel := context.WithCancel(ctx)
	store := &queued{counted: counted{Store: s}}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range clients {
		all.Go(func() {
			c := holdfast.New(store, &holdfast.Options{NoSweep: true})
			_, _ = c.Lock(wait, "renewed", &holdfast.LockOptions{Fair: true}) // never granted
			_ = c.Close()
		})
	}
	for store.acquires.Load() < 2*int64(clients) { // each Client asks, subscribes and asks again
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(scaled(queueSettles))
	return alone, renewalP99(ctx, h)
}

func renewalP99(ctx context.Context, h *holdfast.Hold) time.Duration {
	took := make([]time.Duration, scaled(500))
	for i := range took {
		began := time.Now()
		check(h.Renew(ctx, time.Minute))
		took[i] = time.Since(began)
		time.Sleep(5 * time.Millisecond)
	}
	return quantile(took, 0.99)
}
