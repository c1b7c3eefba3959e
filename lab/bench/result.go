package main

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// result is one target with its measured value.
type result = results.Result

const sameBare = "the same statements, bare"

// pairPoints returns points of pairs of Lock and Unlock per second, of Holdfast and of the
// peer.
func pairPoints(row string, ours []float64, peer string, theirs []float64) []results.Point {
	return []results.Point{ratePoint("pairs", row, "Holdfast", ours), ratePoint("pairs", row, peer, theirs)}
}

func ratePoint(drawing, row, series string, rates []float64) results.Point {
	return results.Point{Drawing: drawing, Row: row, Series: series, Value: median(rates)}
}

// timePoints returns points of hand-over times, in milliseconds.
func timePoints(drawing, row string, took []time.Duration) (all []results.Point) {
	for _, p := range []struct {
		series string
		d      time.Duration
	}{{"p50", median(took)}, {"p99", quantile(took, 0.99)}, {"longest", slices.Max(took)}} {
		all = append(all, results.Point{Drawing: drawing, Row: row, Series: p.series, Value: milliseconds(p.d)})
	}
	return all
}
