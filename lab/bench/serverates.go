package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	ratesWorkers = 32
	ratesRounds  = 5
	ratesTurn    = time.Second
	ratesBatch   = 100
)

// measureServeRates measures how many requests a server handles for each second of processor
// time. This process makes the load, and the store is on the same machine.
func measureServeRates(ctx context.Context, dir string) []result {
	return withServers(ctx, dir, func(store *servedStore, s *servedTwice) []result {
		var results []result
		for _, server := range []*served{s.plain, s.secure} {
			loads := loadsOf(ctx, server)
			var turns []func(bool)
			for _, l := range loads {
				turns = append(turns, func(counts bool) { l.turn(server, counts) })
			}
			inTurns(ratesRounds, turns...)
			for _, l := range loads {
				results = append(results, result{
					What:  fmt.Sprintf("%s behind holdfast serve, %s, %s per second of its CPU time", store.name, server.scheme(), l.what),
					Value: l.done * l.requests / l.busy.Seconds(), Figure: true,
					Detail: fmt.Sprintf("%s by %d workers at once, in %d turns of %v: %.0f per second, for which it kept %.2f processors busy",
						l.each, ratesWorkers, ratesRounds, ratesTurn, l.done/l.took.Seconds(), l.busy.Seconds()/l.took.Seconds()),
				})
			}
		}
		return results
	})
}

// load is a kind of work for a server.
type load struct {
	what, each string
	requests   float64 // for one piece of work
	work       []func() error

	done       float64       // pieces of work, in all turns
	busy, took time.Duration // the server's processor time, and the elapsed time
}

// turn lets all workers work for a while.
func (l *load) turn(server *served, counts bool) {
	before := must(processorTimeOf(server.cmd.Process.Pid))
	start := time.Now()
	rate := rateOf(l.work, ratesTurn)
	took := time.Since(start)
	after := must(processorTimeOf(server.cmd.Process.Pid))
	if counts {
		l.done, l.busy, l.took = l.done+rate*took.Seconds(), l.busy+after-before, l.took+took
	}
}

// loadsOf returns all loads. Each worker has resources of its own, and holds the resources that
// it renews.
func loadsOf(ctx context.Context, server *served) []*load {
	loads := []*load{
		{what: "acquires and releases", each: "pairs of Lock and Unlock", requests: 2, work: lockers(ctx, ratesWorkers, server.callers...)},
		{what: "renewals", each: "requests with one renewal", requests: 1},
		{what: fmt.Sprintf("renewals, %d in a request,", ratesBatch), each: fmt.Sprintf("requests with %d renewals", ratesBatch), requests: ratesBatch},
	}
	var held [ratesWorkers][]driver.RenewRequest
	storeOf := func(i int) driver.Store { return server.callers[i%len(server.callers)].store }
	atOnce(ratesWorkers, func(i int) { held[i] = holdBatch(ctx, storeOf(i), fmt.Sprintf("%s-%d", server.scheme(), i)) })
	for i := range ratesWorkers {
		store := storeOf(i)
		loads[1].work = append(loads[1].work, func() error { return renew(ctx, store, held[i][:1]) })
		loads[2].work = append(loads[2].work, func() error { return renew(ctx, store, held[i]) })
	}
	return loads
}

// holdBatch acquires resources with names that begin with name, and returns their renewals.
func holdBatch(ctx context.Context, store driver.Store, name string) (held []driver.RenewRequest) {
	for n := range scaled(ratesBatch) {
		q := driver.AcquireRequest{Resource: fmt.Sprintf("%s-%d", name, n), LockID: "worker", HoldID: driver.NewHoldID(), TTL: time.Hour}
		g := must(store.Acquire(ctx, q))
		held = append(held, driver.RenewRequest{
			HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, TTL: q.TTL,
		})
	}
	return held
}

func renew(ctx context.Context, store driver.Store, held []driver.RenewRequest) error {
	results, err := store.Renew(ctx, held)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}
