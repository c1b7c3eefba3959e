// Package report writes the HTML page of a fault campaign. The page shows which process relied
// on which lock when, the faults, the seed and the verdict.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/campaign/worker"
)

// Run is the result of a campaign.
type Run struct {
	Store      string
	Seed       uint64
	Lasts, TTL time.Duration
	Processes  int
	Command    string // the command that repeats it
	Faults     []Fault
	Events     []history.Event
	Violations []judge.Violation
	Unordered  bool              // the search for an order of decisions did not finish
	Samples    [][]worker.Sample // of each process that ran all the time; if there are any, the run has no events
	Records    int               // number of records in the store at the end
}

// Fault is a fault that happened.
type Fault struct {
	Name     string
	From, To time.Duration
}

//go:embed page.html
var text string

var page = template.Must(template.New("page").Parse(text))

// Sizes in pixels.
const (
	width  = 1600
	left   = 60
	row    = 44
	bar    = 24
	thin   = 10
	marker = 2 // the least width of a mark
)

// rect is a rectangle on the page, in pixels.
type rect struct {
	X, Y, W, H float64
	Fill       string
	Title      string
}

// lane is the row of a lock on the page.
type lane struct {
	Name string
	Y    float64
}

// count is a row of the table: how often a kind of request had each outcome.
type count struct {
	Kind history.Kind
	N    []int
}

// outcomes and kinds are the columns and rows of the table.
var (
	outcomes = []history.Outcome{history.Done, history.Held, history.Lost, history.Unknown}
	kinds    = []history.Kind{history.Wait, history.Acquire, history.Renew, history.Release, history.Write}
	colours  = []string{"#4878a8", "#c8812d", "#5a9a5a", "#a05a9c", "#b5584c", "#6a6a9a", "#7f7f3a", "#3a8f8f"}
)

// Write writes the page.
func Write(to io.Writer, r Run) error {
	begin, end := span(r)
	x := func(at time.Duration) float64 {
		return left + (width-left)*float64(min(max(at, begin), end)-begin)/float64(max(end-begin, 1))
	}
	between := func(from, to time.Duration) (at, w float64) { return x(from), max(x(to)-x(from), marker) }
	var bands, bars []rect
	var faults []Fault
	for _, f := range r.Faults {
		b := rect{Fill: "#d08080", Title: f.Name}
		b.X, b.W = between(f.From, f.To)
		bands = append(bands, b)
		faults = append(faults, Fault{f.Name, rounded(f.From - begin), rounded(f.To - begin)})
	}
	resources := history.Resources(r.Events)
	var lanes []lane
	for i, name := range resources {
		lanes = append(lanes, lane{name, float64((i + 1) * row)})
	}
	for _, e := range r.Events {
		if e.Kind != history.Believe {
			continue
		}
		b := rect{
			H: bar, Fill: colours[e.Process%len(colours)],
			Title: fmt.Sprintf("process %d, %s, token %d, %v to %v", e.Process, e.LockID, e.Token, rounded(e.Called-begin), rounded(e.Answered-begin)),
		}
		if e.Shared {
			b.H = thin
		}
		b.Y = float64((slices.Index(resources, e.Resource)+1)*row) - b.H
		b.X, b.W = between(e.Called, min(e.Until, e.Answered))
		bars = append(bars, b)
	}
	return page.Execute(to, map[string]any{
		"Store": r.Store, "Seed": fmt.Sprintf("%#x", r.Seed), "Lasts": r.Lasts, "TTL": r.TTL, "Processes": r.Processes,
		"Events": len(r.Events), "Command": r.Command, "Faults": faults, "Violations": shown(r.Violations),
		"Width": width, "Height": (len(resources) + 1) * row, "Bands": bands, "Lanes": lanes, "Bars": bars,
		"Outcomes": outcomes, "Counts": counts(r.Events),
	})
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// span returns the times of the first and the last event.
func span(r Run) (begin, end time.Duration) {
	for i, e := range r.Events {
		if i == 0 || e.Called < begin {
			begin = e.Called
		}
		end = max(end, e.Answered)
	}
	return begin, end
}

func counts(events []history.Event) (rows []count) {
	for _, kind := range kinds {
		c := count{kind, make([]int, len(outcomes))}
		for _, e := range events {
			if e.Kind == kind {
				c.N[slices.Index(outcomes, e.Outcome)]++
			}
		}
		rows = append(rows, c)
	}
	return rows
}

// broken is a violation for the page.
type broken struct {
	Rule   judge.Rule
	Text   string
	Events []string
}

func shown(all []judge.Violation) (some []broken) {
	for _, v := range all {
		some = append(some, broken{v.Rule, v.Text, Lines(v.Events)})
	}
	return some
}

// Lines formats events as JSON, one per line.
func Lines(events []history.Event) (lines []string) {
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			line = fmt.Append(nil, err)
		}
		lines = append(lines, string(line))
	}
	return lines
}
