package fitness

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	upTo := func(n int, unit time.Duration) []time.Duration {
		var ds []time.Duration
		for i := range n {
			ds = append(ds, time.Duration(n-i)*unit) // the order is of no matter
		}
		return ds
	}
	for name, c := range map[string]struct {
		samples            []time.Duration
		p50, p90, p99, max time.Duration
	}{
		"none":        {nil, 0, 0, 0, 0},
		"zero":        {[]time.Duration{0}, 0, 0, 0, 0},
		"one":         {[]time.Duration{5123 * time.Microsecond}, 5123 * time.Microsecond, 5123 * time.Microsecond, 5123 * time.Microsecond, 5123 * time.Microsecond},
		"microsecond": {upTo(1000, time.Microsecond), 500 * time.Microsecond, 900 * time.Microsecond, 990 * time.Microsecond, time.Millisecond},
		"second":      {upTo(100, time.Second), 50 * time.Second, 90 * time.Second, 99 * time.Second, 100 * time.Second},
		"long":        {[]time.Duration{time.Second, 3 * time.Hour}, time.Second, 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := Samples(c.samples)
			if got := s.Quantile(1); got != c.max {
				t.Errorf("the longest is %v, want %v", got, c.max)
			}
			for part, want := range map[float64]time.Duration{0.5: c.p50, 0.9: c.p90, 0.99: c.p99} {
				if got := s.Quantile(part); got != want {
					t.Errorf("quantile %v is %v, want %v", part, got, want)
				}
			}
		})
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                          "0s",
		7:                          "7ns",
		999:                        "999ns",
		1234:                       "1.23µs",
		56789 * time.Microsecond:   "56.8ms",
		999999 * time.Microsecond:  "1s",
		-1234567 * time.Nanosecond: "-1.23ms",
		12345 * time.Second:        "3h25m0s",
	} {
		if got := round(d).String(); got != want {
			t.Errorf("%v is rounded to %s, want %s", d, got, want)
		}
	}
}
