package main

import (
	"fmt"
	"strconv"
)

// result is one target and what was measured.
type result struct {
	Name  string  `json:"name"` // of the measurement
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
}

func (r result) pass() bool {
	switch {
	case r.Figure:
		return true
	case r.AtLeast:
		return r.Value >= r.Limit
	}
	return r.Value <= r.Limit
}

func (r result) verdict() string {
	switch {
	case r.Figure:
		return ""
	case r.pass():
		return "PASS"
	}
	return "FAIL"
}

func (r result) target() string {
	if r.Figure {
		return ""
	}
	sign := "≤"
	if r.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s", sign, quantity(r.Limit, r.Unit))
}

func (r result) measured() string { return quantity(r.Value, r.Unit) }

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
