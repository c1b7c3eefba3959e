package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	postgresWaiters   = 64
	postgresHandOvers = 2000
)

// measurePostgresHandOver lets many wait for one lock and measures how long after an
// unlock the next one is granted it.
func measurePostgresHandOver(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	var results []result
	for _, clients := range []int{1, 8} {
		took, err := crowd(ctx, clients, func() *holdfast.Client { return holdfast.New(db.store, nil) })
		if err != nil {
			return nil, err
		}
		results = append(results, result{
			What:  fmt.Sprintf("PostgreSQL, hand-over among %d waiters in %s, p99", postgresWaiters, clientsOf(clients)),
			Value: milliseconds(quantile(took, 0.99)),
			Unit:  "ms",
			Limit: 25,
			Detail: fmt.Sprintf("%d hand-overs, from before Unlock to the next grant: p50 %.1f ms, p99 %.1f ms, longest %.1f ms",
				len(took), milliseconds(median(took)), milliseconds(quantile(took, 0.99)), milliseconds(slices.Max(took))),
			Points: timePoints("hand-overs", fmt.Sprintf("PostgreSQL, %d waiters in %s", postgresWaiters, clientsOf(clients)), took),
		})
	}
	return results, nil
}

func clientsOf(n int) string {
	if n == 1 {
		return "one Client"
	}
	return fmt.Sprintf("%d Clients", n)
}

// crowd lets goroutines lock and unlock one resource, and returns how long each
// hand-over took.
func crowd(ctx context.Context, clients int, open func() *holdfast.Client) (took []time.Duration, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex // for the race detector, which does not know that there is a lock
	var unlocked time.Time
	errs := make([]error, postgresWaiters)
	for c := range clients {
		client := open()
		defer func() { err = errors.Join(err, client.Close()) }()
		for i := range postgresWaiters / clients {
			all.Go(func() {
				mine := &errs[c*postgresWaiters/clients+i]
				for *mine == nil {
					var h *holdfast.Hold
					if h, *mine = client.Lock(ctx, "crowded", nil); *mine != nil {
						return
					}
					granted := time.Now()
					mu.Lock()
					if !unlocked.IsZero() {
						took = append(took, granted.Sub(unlocked))
					}
					enough := len(took) >= scaled(postgresHandOvers)
					unlocked = time.Now()
					mu.Unlock()
					if *mine = h.Unlock(ctx); enough {
						return
					}
				}
			})
		}
	}
	all.Wait()
	return took, errors.Join(errs...)
}
