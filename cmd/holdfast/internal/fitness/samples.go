package fitness

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Samples are durations that were measured, with the monotonic clock.
type Samples []time.Duration

// Quantile returns the duration that the given part of the samples, between 0 and 1,
// does not exceed: 0.5 is the median, 1 the longest. It is 0 if there are no samples.
func (s Samples) Quantile(part float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(int(math.Ceil(part*float64(len(s))))-1, 0)]
}

// MarshalJSON returns an object that scripts read: a field may be added, none changed. It
// is null if nothing was measured.
func (s Samples) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Count int     `json:"count"`
		P50Ms float64 `json:"p50Ms"`
		P90Ms float64 `json:"p90Ms"`
		P99Ms float64 `json:"p99Ms"`
		MaxMs float64 `json:"maxMs"`
	}{
		len(s), milliseconds(s.Quantile(0.5)), milliseconds(s.Quantile(0.9)), milliseconds(s.Quantile(0.99)), milliseconds(s.Quantile(1)),
	})
}

// milliseconds returns the duration in JSON, with as many digits as round keeps.
func milliseconds(d time.Duration) float64 { return float64(round(d)) / float64(time.Millisecond) }

// round rounds to three digits. More would not be the same when measured again.
func round(d time.Duration) time.Duration {
	step := time.Duration(1)
	for d/step >= 1000 || d/step <= -1000 {
		step *= 10
	}
	return d.Round(step)
}
