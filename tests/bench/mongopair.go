package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// mongoRounds and mongoTurn are how often, and for how long, each side works.
const (
	mongoRounds = 60
	mongoTurn   = 100 * time.Millisecond
)

// measureMongoPair compares Lock and Unlock with the same two statements sent bare,
// by one worker and by 32, each with a resource of its own.
func measureMongoPair(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openMongo(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	client, _, closeLocks, err := db.lockIn(ctx, "locks")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocks()) }()
	var results []result
	for _, workers := range []int{1, 32} {
		r, err := mongoPair(ctx, db, client, workers)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func mongoPair(ctx context.Context, db *mongoDB, client *holdfast.Client, workers int) (result, error) {
	locks, bare := make([]func() error, workers), make([]func() error, workers)
	for i := range workers {
		resource := fmt.Sprintf("resource-%d", i)
		b, err := recordMongo(ctx, resource, driver.Exclusive)
		if err != nil {
			return result{}, err
		}
		b = b.in(db.Collection("locks"))
		bare[i] = func() error { return b.lockAndUnlock(ctx) }
		locks[i] = func() error { return lockAndUnlock(ctx, client, resource) }
	}
	ours, theirs, err := ratesInTurns(mongoRounds, locks, bare)
	if err != nil {
		return result{}, err
	}
	title := "1 worker"
	if workers > 1 {
		title = fmt.Sprintf("%d workers", workers)
	}
	return result{
		What:    "MongoDB, Lock and Unlock per the same two statements sent bare, " + title,
		Value:   median(ours) / median(theirs),
		AtLeast: true, Limit: 0.9,
		Detail: fmt.Sprintf("medians of %d rounds in turns: %.0f and %.0f pairs per second on %s; the same mongo.Client, each worker on a resource of its own",
			mongoRounds, median(ours), median(theirs), db.server),
	}, nil
}

// ratesInTurns lets the workers of both sides work in turns, for mongoTurn each,
// and returns how often in a second all workers of a side did their work.
func ratesInTurns(rounds int, a, b []func() error) (as, bs []float64, err error) {
	side := func(workers []func() error, rates *[]float64) func(bool) error {
		return func(counts bool) error {
			rate, err := rateOf(workers, mongoTurn)
			if counts {
				*rates = append(*rates, rate)
			}
			return err
		}
	}
	err = inTurns(rounds, side(a, &as), side(b, &bs))
	return as, bs, err
}

// rateOf lets all workers work at once, for a time and until each has finished
// what it was at.
func rateOf(workers []func() error, turn time.Duration) (perSecond float64, err error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, len(workers))
	start := time.Now()
	for i, work := range workers {
		all.Go(func() {
			for errs[i] == nil && time.Since(start) < turn {
				errs[i] = work()
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), errors.Join(errs...)
}
