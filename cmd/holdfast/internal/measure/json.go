package measure

import (
	"time"
)

// Times are Samples in JSON. Scripts read it: a field may be added, none changed.
type Times struct {
	Count int64   `json:"count"`
	P50Ms float64 `json:"p50Ms"`
	P90Ms float64 `json:"p90Ms"`
	P99Ms float64 `json:"p99Ms"`
	MaxMs float64 `json:"maxMs"`
}

// TimesOf returns the samples for JSON, nil for nil: what was not measured is null.
func TimesOf(s *Samples) *Times {
	if s == nil {
		return nil
	}
	return &Times{
		Count: s.Count(), P50Ms: Milliseconds(s.Quantile(0.5)), P90Ms: Milliseconds(s.Quantile(0.9)),
		P99Ms: Milliseconds(s.Quantile(0.99)), MaxMs: Milliseconds(s.Max()),
	}
}

// Milliseconds returns the duration in JSON, with as many digits as Round keeps.
func Milliseconds(d time.Duration) float64 {
	return float64(Round(d)) / float64(time.Millisecond)
}
