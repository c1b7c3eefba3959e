package results

import (
	"fmt"
	"strconv"
)

// Result is one target and what was measured.
type Result struct {
	Name  string  `json:"name"`           // of the measurement
	Date  string  `json:"date,omitempty"` // if it is not that of the report
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Figure: the value is for people, and has no limit.
	Figure bool `json:"figure,omitempty"`
	// AtLeast: the value must not be below the limit; else not above it.
	AtLeast bool    `json:"atLeast,omitempty"`
	Limit   float64 `json:"limit"`
	// Detail says what the value was made of, for people.
	Detail string `json:"detail"`
	// Points are what the value was made of, as the drawings show it.
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

// Verdict is PASS or FAIL, or nothing where there is no limit.
func (r Result) Verdict() string {
	switch {
	case r.Figure:
		return ""
	case r.Pass():
		return "PASS"
	}
	return "FAIL"
}

// Target is the limit as tables have it.
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

// Measured is the value as tables have it.
func (r Result) Measured() string { return quantity(r.Value, r.Unit) }

// quantity writes three digits of a number, and its unit.
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
