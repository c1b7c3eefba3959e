package fitness

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/server/fit"
)

// checked is a Report in JSON. Scripts read it: a field may be added, none changed.
type checked struct {
	Store    string         `json:"store"`
	Fit      bool           `json:"fit"`
	Findings []finding      `json:"findings"`
	Traits   *output.Traits `json:"traits"`
	Figures  figures        `json:"figures"`
}

type finding struct {
	Check  string      `json:"check"`
	Result fit.Verdict `json:"result"`
	Text   string      `json:"text"`
}

// figures are null if they were not measured.
type figures struct {
	Pair               *measure.Times `json:"acquireAndRelease"`
	Renewal            *measure.Times `json:"renewal"`
	HandOver           *measure.Times `json:"handOver"`
	ClockAheadMs       *float64       `json:"clockAheadMs"`
	ClockUncertaintyMs *float64       `json:"clockUncertaintyMs"`
	ShortestTTLMs      *int64         `json:"shortestTtlMs"`
}

// JSON returns the report for JSON, with the name of the store.
func (r Report) JSON(store string) any {
	c := checked{Store: store, Fit: r.Failed() == nil, Figures: figures{
		Pair: measure.TimesOf(r.Pair), Renewal: measure.TimesOf(r.Renewal), HandOver: measure.TimesOf(r.HandOver),
	}}
	for _, f := range r.Findings {
		c.Findings = append(c.Findings, finding{f.Check, f.Result, f.Text})
	}
	if t := r.Traits; t.Name != "" {
		c.Traits = new(output.TraitsOf(t))
	}
	if r.Clock != nil {
		c.Figures.ClockAheadMs, c.Figures.ClockUncertaintyMs = new(measure.Milliseconds(r.Clock.Ahead)), new(measure.Milliseconds(r.Clock.GiveOrTake))
	}
	if r.TTL != 0 {
		c.Figures.ShortestTTLMs = new(r.TTL.Milliseconds())
	}
	return c
}

// Rows returns the rows of a table, the titles first.
func (r Report) Rows() [][]string {
	rows := [][]string{{"RESULT", "CHECK", "FINDING"}}
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Result), f.Check, f.Text})
	}
	return rows
}
