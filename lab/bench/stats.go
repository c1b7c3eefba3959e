package main

import (
	"cmp"
	"slices"
	"time"
)

// quantile returns the value below which the given part of the values lies.
func quantile[T cmp.Ordered](values []T, part float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// inTurns calls all sides in each round, beginning with another one each time. A first round
// does not count.
func inTurns(rounds int, sides ...func(counts bool)) {
	for n := range scaled(rounds) + 1 {
		for i := range sides {
			sides[(n+i)%len(sides)](n > 0)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
