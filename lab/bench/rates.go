package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// rateTurn is for how long a side works at a time that is compared by its rate.
const rateTurn = 100 * time.Millisecond

// ratesInTurns lets the workers of both sides work in turns, for that long each,
// and returns how often in a second all workers of a side did their work.
func ratesInTurns(rounds int, turn time.Duration, a, b []func() error) (as, bs []float64) {
	rates := ratesOfSides(rounds, turn, a, b)
	return rates[0], rates[1]
}

// ratesOfSides is ratesInTurns for any number of sides.
func ratesOfSides(rounds int, turn time.Duration, sides ...[]func() error) (rates [][]float64) {
	rates = make([][]float64, len(sides))
	turns := make([]func(bool), len(sides))
	for i, workers := range sides {
		turns[i] = func(counts bool) {
			if rate := rateOf(workers, turn); counts {
				rates[i] = append(rates[i], rate)
			}
		}
	}
	inTurns(rounds, turns...)
	return rates
}

// rateOf lets all workers work at once, for a time and until each has finished
// what it was at.
func rateOf(workers []func() error, turn time.Duration) (perSecond float64) {
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
	check(errors.Join(errs...))
	return float64(done.Load()) / time.Since(start).Seconds()
}

// medianRatio compares sides that took turns, round by round: what hits both while
// they work, as when a server's files are merged, then hits the ratio less than
// it hits medians of either.
func medianRatio(as, bs []float64) float64 {
	ratios := make([]float64, len(as))
	for i := range ratios {
		ratios[i] = as[i] / bs[i]
	}
	return median(ratios)
}

func workersOf(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}
