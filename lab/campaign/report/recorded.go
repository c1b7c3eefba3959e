package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// Recorded returns the run in the form of a result file.
func Recorded(r Run) results.Recorded {
	kept := results.Run{
		Store: r.Store, Seed: fmt.Sprintf("%#x", r.Seed), Lasts: r.Lasts.String(), Processes: r.Processes,
		Faults: len(r.Faults), Broken: len(r.Violations), Named: make(map[string]int),
	}
	if r.Unordered {
		kept.Note = "order not looked for to the end"
	}
	for _, f := range r.Faults {
		kept.Named[f.Name]++
	}
	for _, e := range r.Events {
		switch e.Kind {
		case history.Acquire, history.Renew, history.Release:
			kept.Requests++
			if e.Outcome == history.Unknown {
				kept.Unanswered++
			}
		case history.Wait:
			if e.Outcome == history.Done {
				kept.Locks++
			}
		case history.Write:
			kept.Writes++
		case history.Believe:
		}
	}
	return results.Recorded{Run: kept, Line: timeLine(r)}
}

// timeLine returns the time line from the first event until faults and holds are over.
func timeLine(r Run) (line results.TimeLine) {
	begin, _ := span(r)
	at := func(d time.Duration) int { return int((d - begin).Milliseconds()) }
	for _, f := range r.Faults {
		line.Faults = append(line.Faults, results.Fault{Name: f.Name, From: at(f.From), To: at(f.To)})
		line.Ends = max(line.Ends, at(f.To))
	}
	for _, e := range r.Events {
		if e.Kind == history.Believe {
			line.Holds = append(line.Holds, results.Held{
				Resource: e.Resource, Process: e.Process, Shared: e.Shared, From: at(e.Called), To: at(min(e.Until, e.Answered)),
			})
		}
	}
	slices.SortStableFunc(line.Holds, func(a, b results.Held) int { return a.From - b.From })
	return line
}
