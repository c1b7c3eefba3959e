// Package fitness checks whether a store is fit for locks. It tries every operation
// on a resource of its own, and takes the measurements that users need.
package fitness

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Verdict is the result of a Finding.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Note Verdict = "note" // something that the user should know
	Warn Verdict = "warn" // it can be used, but not for everything, or not as it is
	Fail Verdict = "fail" // it cannot be used
)

// Finding is one result of a check. Scripts read it as JSON: a field may be added, none changed.
type Finding struct {
	// Check is a word that scripts may look for.
	Check  string  `json:"check"`
	Result Verdict `json:"result"`
	// Text is what was found and what to do about it.
	Text string `json:"text"`
	// Err is the store's error, if there was one.
	Err error `json:"-"`
}

// Report is the result of a check.
type Report struct {
	Findings []Finding
	// Traits are what the store promises; without a name if it was not opened.
	Traits holdfast.Traits
	// Left is the resource that may be held without an end; empty: none.
	Left string
	Figures
}

// Figures are what was measured, null if it was not. Scripts read them: one may be added,
// none changed.
type Figures struct {
	// Pair is an acquire and a release, and HandOver the time from a release to the grant
	// to the waiter.
	Pair     Samples `json:"acquireAndRelease"`
	Renewal  Samples `json:"renewal"`
	HandOver Samples `json:"handOver"`
	// ClockAheadMs is how far the store's clock is ahead of this machine's, give or take
	// half the round trip in which it was read.
	ClockAheadMs       *float64 `json:"clockAheadMs"`
	ClockUncertaintyMs *float64 `json:"clockUncertaintyMs"`
	// ShortestTTLMs is the shortest TTL that makes sense here.
	ShortestTTLMs *int64 `json:"shortestTtlMs"`
}

// Failed returns the first finding that failed, or nil.
func (r Report) Failed() *Finding {
	for i, f := range r.Findings {
		if f.Result == Fail {
			return &r.Findings[i]
		}
	}
	return nil
}

// JSON returns the report for JSON, with the name of the store.
func (r Report) JSON(store string) any {
	var traits *output.Traits
	if r.Traits.Name != "" {
		traits = new(output.TraitsOf(r.Traits))
	}
	return struct {
		Store    string         `json:"store"`
		Fit      bool           `json:"fit"`
		Findings []Finding      `json:"findings"`
		Traits   *output.Traits `json:"traits"`
		Figures  Figures        `json:"figures"`
	}{store, r.Failed() == nil, r.Findings, traits, r.Figures}
}

// Rows returns the rows of a table, the titles first.
func (r Report) Rows() [][]string {
	rows := [][]string{{"RESULT", "CHECK", "FINDING"}}
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Result), f.Check, f.Text})
	}
	return rows
}

// Isolation says whether run --isolate is possible here, by trying it. It has nothing to do
// with the store.
func Isolation() Finding {
	text := "run --isolate can be used here"
	if g, err := guard.Start(true); err != nil {
		text = "run --isolate cannot be used here: " + err.Error()
	} else {
		g.Close()
	}
	return Finding{Check: "isolate", Result: Note, Text: text}
}
