package main

import (
	"testing"
	"time"
)

// The difference of each round counts, and not that of medians, which is 10.5 ms.
func TestMedianLonger(t *testing.T) {
	got := medianLonger([]float64{100, 50, 80}, []float64{500, 1000, 100})
	if want := 8 * time.Millisecond; got.Round(time.Microsecond) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
