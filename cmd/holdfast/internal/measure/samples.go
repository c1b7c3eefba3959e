// Package measure times a store: how many locks clients get in a second, how long
// each takes, and how long a hand-over from one client to the next takes. It uses
// the monotonic clock.
package measure

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"
)

// Samples collects durations for their quantiles. The methods may be called concurrently.
type Samples struct {
	mu     sync.Mutex
	all    []time.Duration
	sorted bool
}

// Add records one duration.
func (s *Samples) Add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.sorted = append(s.all, d), false
}

// Count returns how many durations were recorded.
func (s *Samples) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Quantile returns the duration that the given part of the samples, between 0 and 1,
// does not exceed: 0.5 is the median, 1 the longest. It is 0 if there are no samples.
func (s *Samples) Quantile(part float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	if !s.sorted {
		slices.Sort(s.all)
		s.sorted = true
	}
	return s.all[max(int(math.Ceil(part*float64(len(s.all))))-1, 0)]
}

// MarshalJSON returns an object that scripts read: a field may be added, none changed.
func (s *Samples) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count int     `json:"count"`
		P50Ms float64 `json:"p50Ms"`
		P90Ms float64 `json:"p90Ms"`
		P99Ms float64 `json:"p99Ms"`
		MaxMs float64 `json:"maxMs"`
	}{
		s.Count(), Milliseconds(s.Quantile(0.5)), Milliseconds(s.Quantile(0.9)), Milliseconds(s.Quantile(0.99)), Milliseconds(s.Quantile(1)),
	})
}

// Milliseconds returns the duration in JSON, with as many digits as Round keeps.
func Milliseconds(d time.Duration) float64 { return float64(Round(d)) / float64(time.Millisecond) }

// Round rounds to three digits. More would not be the same when measured again.
func Round(d time.Duration) time.Duration {
	step := time.Duration(1)
	for d/step >= 1000 || d/step <= -1000 {
		step *= 10
	}
	return d.Round(step)
}
