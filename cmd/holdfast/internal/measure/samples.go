// Package measure times what clients do with a store: how many locks they get in
// a second, how long each takes, and how long a lock is on its way from one
// client to the next. All times are of the monotonic clock.
package measure

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the longest that a quantile can be; the maximum is exact anyway.
	longest = time.Hour
	// digits of a quantile that are right. With them, ten samples and a billion
	// take the same memory, some 300 KB.
	digits = 3
)

// Samples are durations of which quantiles are wanted. All methods may be called
// concurrently. Make them with NewSamples.
type Samples struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
	max       time.Duration
}

// NewSamples returns none yet.
func NewSamples() *Samples {
	return &Samples{histogram: hdrhistogram.New(1, int64(longest), digits)}
}

// Add records one duration.
func (s *Samples) Add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max(s.max, d)
	// The only error is a value above the longest.
	_ = s.histogram.RecordValue(int64(min(d, longest)))
}

// Count is how many were recorded.
func (s *Samples) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.histogram.TotalCount()
}

// Max is the longest, exactly. 0 if there is none.
func (s *Samples) Max() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

// Quantile is the duration that the part, between 0 and 1, of the samples does not
// exceed: 0.5 is the median. It is right to a thousandth, and 0 if there is none.
func (s *Samples) Quantile(part float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The histogram answers with the upper end of a step, which may lie above all.
	return min(time.Duration(s.histogram.ValueAtQuantile(100*part)), s.max)
}

// Round keeps three digits, which is more than a second measurement would repeat.
func Round(d time.Duration) time.Duration {
	step := time.Duration(1)
	for d/step >= 1000 || d/step <= -1000 {
		step *= 10
	}
	return d.Round(step)
}
