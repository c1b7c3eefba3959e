package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/campaign/report"
)

func TestWrite(t *testing.T) {
	held := history.Event{Process: 3, Kind: history.Believe, Resource: "a <resource>", LockID: "holder", Called: time.Second, Until: 3 * time.Second, Answered: 2 * time.Second, Outcome: history.Done}
	asked := history.Event{Kind: history.Acquire, Resource: "a <resource>", Called: time.Second, Answered: 2 * time.Second, Outcome: history.Held}
	run := report.Run{
		Store: "sqlite", Seed: 0x123, Events: []history.Event{held, asked}, Command: "go test",
		Faults:     []report.Fault{{Name: "a worker is killed", From: time.Second, To: 2 * time.Second}},
		Violations: []judge.Violation{{Rule: judge.Orphans, Text: "refused in vain", Events: []history.Event{asked}}},
	}
	var page strings.Builder
	if err := report.Write(&page, run); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0x123", "process 3, holder", "a &lt;resource&gt;", "a worker is killed", "refused in vain", "1 broken promises", "go test"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	run.Violations = nil
	page.Reset()
	if err := report.Write(&page, run); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "No promise was broken") {
		t.Error("the page does not say that all is well")
	}
}
