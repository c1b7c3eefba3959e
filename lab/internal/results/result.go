package results

import (
	"fmt"
	"strconv"
)

// Result is one target and its measured value.
type Result struct {
	Name  string  `json:"name"`           // of the measurement
	Date  string  `json:"date,omitempty"` // if it is not that of the report
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Figure means that the value is informative and has no limit.
	Figure bool `json:"figure,omitempty"`
	// AtLeast means that the value must not be below the limit. Otherwise it must not be above.
	AtLeast bool    `json:"atLeast,omitempty"`
	Limit   float64 `json:"limit"`
	// Detail tells a reader how the value was measured.
	Detail string `json:"detail"`
	// Points are the measured values behind Value, for the drawings.
	Points []Point `json:"points,omitempty"`
}

// Point is a value in a row of a drawing.
type Point struct {
	Drawing string  `json:"drawing"`
	Row     string  `json:"row"`
	Series  string  `json:"series"`
	Value   float64 `json:"value"`
}

// Pass reports whether the value is within its limit.
func (r Result) Pass() bool {
	switch {
	case r.Figure:
		return true
	case r.AtLeast:
		return r.Value >= r.Limit
	}
	return r.Value <= r.Limit
}

// Verdict returns PASS or FAIL, or "" if there is no limit.
func (r Result) Verdict() string {
	switch {
	case r.Figure:
		return ""
	case r.Pass():
		return "PASS"
	}
	return "FAIL"
}

// Target returns the limit as tables show it.
func (r Result) Target() string {
	if r.Figure {
		return ""
	}
	sign := "≤"
	if r.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s", sign, quantity(r.Limit, r.Unit))
}

// Measured returns the value as tables show it.
func (r Result) Measured() string { return quantity(r.Value, r.Unit) }

// quantity formats a number to three digits, with its unit.
func quantity(v float64, unit string) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if v >= 100 {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	if unit != "" {
		text += " " + unit
	}
	return text
}
