package report_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/campaign/report"
	"github.com/holdfast-go/holdfast/lab/internal/results"
)

func TestRecorded(t *testing.T) {
	const s = time.Second
	got := report.Recorded(report.Run{
		Store: "redis", Seed: 0x2a, Lasts: 15 * s, Processes: 5, Unordered: true, Violations: make([]judge.Violation, 2),
		Faults: []report.Fault{{Name: "it fails", From: 101 * s, To: 103 * s}, {Name: "it fails", From: 104 * s, To: 105 * s}},
		Events: []history.Event{
			{Kind: history.Acquire, Resource: "r", Called: 100 * s, Answered: 101 * s, Outcome: history.Done},
			{Kind: history.Renew, Resource: "r", Called: 101 * s, Answered: 102 * s, Outcome: history.Unknown},
			{Kind: history.Wait, Resource: "r", Called: 100 * s, Answered: 101 * s, Outcome: history.Done},
			{Kind: history.Wait, Resource: "r", Called: 100 * s, Answered: 101 * s, Outcome: history.Held},
			{Kind: history.Write, Resource: "r", Called: 102 * s, Answered: 103 * s, Outcome: history.Done},
			{Kind: history.Believe, Resource: "r", Process: 3, Shared: true, Called: 102 * s, Until: 103 * s, Answered: 104 * s, Outcome: history.Done},
			{Kind: history.Believe, Resource: "r", Called: 101 * s, Until: 103 * s, Answered: 102 * s, Outcome: history.Done},
		},
	})
	want := results.Recorded{
		Run: results.Run{
			Store: "redis", Seed: "0x2a", Lasts: "15s", Processes: 5, Requests: 2, Unanswered: 1, Locks: 1, Writes: 1, Faults: 2, Broken: 2,
			Note: "order not looked for to the end", Named: map[string]int{"it fails": 2},
		},
		Line: results.TimeLine{
			Ends:   5000,
			Faults: []results.Fault{{Name: "it fails", From: 1000, To: 3000}, {Name: "it fails", From: 4000, To: 5000}},
			Holds:  []results.Held{{Resource: "r", From: 1000, To: 2000}, {Resource: "r", Process: 3, Shared: true, From: 2000, To: 3000}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
