package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// measureRedisHandOver measures the time from an unlock to the grant for a waiting Client,
// compared with a round trip.
func measureRedisHandOver(ctx context.Context, _ string) []result {
	db := openRedis(ctx)
	defer finish(db.close)
	took := clientHandOvers(ctx, db.locks, func(trace *holdfast.Trace) *holdfast.Client {
		return holdfast.New(db.store, &holdfast.Options{Trace: trace})
	})
	b := recordRedis(ctx, db)
	var trips []time.Duration
	for range len(took) {
		start := time.Now()
		check(b.lockAndUnlock(ctx))
		trips = append(trips, time.Since(start)/2)
	}
	return []result{{
		What:  "Redis, hand-over to a waiting Client, p50 in round trips",
		Value: float64(median(took)) / float64(median(trips)),
		Limit: 3,
		Detail: fmt.Sprintf("%d hand-overs, from before Unlock to the grant: p50 %.0f µs, p99 %.0f µs; a round trip is the half of a pair of scripts, %.0f µs",
			len(took), microseconds(median(took)), microseconds(quantile(took, 0.99)), microseconds(median(trips))),
		Points: timePoints("hand-overs", "Redis, one waiter", took),
	}}
}

// clientHandOvers lets another Client wait for a lock of holder, and measures the time from
// each unlock to the grant.
func clientHandOvers(ctx context.Context, holder *holdfast.Client, open func(*holdfast.Trace) *holdfast.Client) (took []time.Duration) {
	refused := make(chan struct{}, handOvers)
	waiter := open(&holdfast.Trace{AttemptEnd: func(_ context.Context, a holdfast.AttemptInfo) {
		if errors.Is(a.Err, holdfast.ErrHeld) {
			refused <- struct{}{}
		}
	}})
	defer finish(waiter.Close)
	type grant struct {
		at  time.Time
		err error
	}
	for range scaled(handOvers) {
		h := must(holder.Lock(ctx, "handed over", nil))
		granted := make(chan grant, 1)
		go func() {
			h, err := waiter.Lock(ctx, "handed over", nil)
			at := time.Now()
			if err == nil {
				err = h.Unlock(ctx)
			}
			granted <- grant{at, err}
		}()
		// The second refusal comes when the subscription is in effect.
		for range 2 {
			select {
			case <-refused:
			case g := <-granted:
				failf("a held lock was granted at %v (%w)", g.at, g.err)
			}
		}
		start := time.Now()
		check(h.Unlock(ctx))
		g := <-granted
		check(g.err)
		took = append(took, g.at.Sub(start))
	}
	return took
}
