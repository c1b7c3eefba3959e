// Package measure times a store: how many locks clients get in a second, how long
// each takes, and how long a hand-over from one client to the next takes. It uses
// the monotonic clock.
package measure

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// longest is the longest that a quantile can be; the maximum is exact anyway.
	longest = time.Hour
	// digits is how many digits of a quantile are exact. Any number of samples takes
	// the same memory, some 300 KB.
	digits = 3
)

// Samples collects durations for their quantiles. Make it with NewSamples. The methods
// may be called concurrently.
type Samples struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
	max       time.Duration
}

// NewSamples returns Samples without a duration.
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

// Count returns how many durations were recorded.
func (s *Samples) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.histogram.TotalCount()
}

// Max returns the longest duration, exactly, or 0 if there is none.
func (s *Samples) Max() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

// Quantile returns the duration that the given part of the samples, between 0 and 1,
// does not exceed: 0.5 is the median. It is exact to a thousandth, and 0 if there are
// no samples.
func (s *Samples) Quantile(part float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The histogram returns the upper end of a step, which may be above the maximum.
	return min(time.Duration(s.histogram.ValueAtQuantile(100*part)), s.max)
}

// Round rounds to three digits. More would not be the same when measured again.
func Round(d time.Duration) time.Duration {
	step := time.Duration(1)
	for d/step >= 1000 || d/step <= -1000 {
		step *= 10
	}
	return d.Round(step)
}
