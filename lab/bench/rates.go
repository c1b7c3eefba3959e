package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// rateTurn is the length of a turn when rates are compared.
const rateTurn = 100 * time.Millisecond

// ratesInTurns lets the workers of both sides work in turns of the given length, and returns
// the rate of each turn: how often per second the workers of a side did their work.
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

// rateOf lets all workers work at once, for a time and until each has finished its current
// work.
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

// medianRatio returns the median of the ratios of rounds. A disturbance of both sides, such as
// a server that merges files, affects this less than the ratio of medians.
func medianRatio(as, bs []float64) float64 {
	ratios := make([]float64, len(as))
	for i := range ratios {
		ratios[i] = as[i] / bs[i]
	}
	return median(ratios)
}

// medianLonger returns how much longer one worker takes for its work at the first rates than at
// the second ones: the median of the differences of rounds, for the reason of medianRatio.
func medianLonger(as, bs []float64) time.Duration {
	longer := make([]time.Duration, len(as))
	for i := range longer {
		longer[i] = time.Duration((1/as[i] - 1/bs[i]) * float64(time.Second))
	}
	return median(longer)
}

func workersOf(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}
