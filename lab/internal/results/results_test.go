package results_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

func TestReport(t *testing.T) {
	r := &results.Report{Date: "2026-01-02", CPU: "a CPU", Cores: 2, System: "linux/amd64", Go: "go1", Results: []results.Result{
		{What: "at most", Value: 1.2345, Unit: "ms", Limit: 2, Detail: "a detail"},
		{What: "at least", Value: 0.5, AtLeast: true, Limit: 0.9, Detail: "why"},
		{What: "a figure", Value: 12345.6, Figure: true},
	}}
	want := `
Measured on 2026-01-02: a CPU, 2 cores, linux/amd64, go1.

|  | target | measured |
| --- | --- | --- |
| at most | ≤ 2 ms | 1.23 ms |
| at least | ≥ 0.9 | **0.5** |

Missed:

- at least: why

`
	if got := r.Markdown(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for _, want := range []string{"1.23 ms   PASS", "at least  ≥ 0.9", "FAIL", "a figure"} {
		if text := r.Table(); !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
	if r.Passed() {
		t.Error("Passed is true although a target was missed")
	}
}

func TestReplace(t *testing.T) {
	kept := func() *results.Report {
		return &results.Report{Date: "2026-01-01", CPU: "a CPU", Results: []results.Result{{Name: "a", Value: 1}, {Name: "c", Value: 1}, {Name: "c", Value: 2}}}
	}
	part := &results.Report{Date: "2026-01-02", CPU: "a CPU", Results: []results.Result{{Name: "b", Value: 3}, {Name: "c", Value: 4}}}
	r := kept()
	err := r.Replace(part, []string{"a", "b", "c"})
	want := []results.Result{{Name: "a", Value: 1}, {Name: "b", Value: 3, Date: "2026-01-02"}, {Name: "c", Value: 4, Date: "2026-01-02"}}
	if err != nil || !reflect.DeepEqual(r.Results, want) {
		t.Errorf("got %+v, error %v; want %+v", r.Results, err, want)
	}
	part.CPU = "another CPU"
	if err := kept().Replace(part, nil); err == nil {
		t.Error("results of another machine replace some")
	}
}

func TestCampaign(t *testing.T) {
	one := results.Run{Store: "redis", Seed: "0x1", Lasts: "5m0s", Requests: 1234, Faults: 3, Named: map[string]int{"a fault": 2, "some fault": 1}}
	other := results.Run{Store: "sqlite", Hosts: true, Seed: "0x2", Lasts: "2m30s", Requests: 1, Faults: 1, Note: "a note", Named: map[string]int{"some fault": 1}}
	alone := results.Run{Store: "redis", Only: "a fault", Seed: "0x3", Lasts: "15s", Faults: 7, Broken: 1}
	for _, c := range []struct {
		name  string
		table results.Campaign
		want  []string
	}{
		{
			"sums, with the names of all runs", results.Campaign{Sum: true, Runs: []results.Run{one, other}},
			[]string{
				"| redis | 0x1 | 5 min | 0 | 1,234 | 0 | 0 | 0 | 3 | 0 |\n", "| sqlite, three hosts | 0x2 | 2.5 min | 0 | 1 | 0 | 0 | 0 | 1 | 0, a note |\n",
				"| all |  |  | 0 | 1,235 | 0 | 0 | 0 | 4 | 0 |\n", "\nOf the faults: a fault (2), some fault (2).\n",
			},
		},
		{
			"sums, with names of the table alone", results.Campaign{Sum: true, Runs: []results.Run{alone}, Faults: map[string]int{"b": 3, "a": 4}},
			[]string{"| redis, nothing else happens | 0x3 | 15 s |", "Of the faults: a (4), b (3).\n"},
		},
		{
			"a column", results.Campaign{Column: "a fault", Runs: []results.Run{one}},
			[]string{"| faults | of them, a fault | broken promises |\n", "| 3 | 2 | 0 |\n"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := c.table.Markdown()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s\nlacks %q", text, want)
				}
			}
		})
	}
	wrong := results.Campaign{Name: "long", Sum: true, Runs: []results.Run{one}, Faults: map[string]int{"a": 4}}
	if text, err := wrong.Markdown(); err == nil {
		t.Errorf("names that are not as many as the faults give %q", text)
	}
}

func TestKeepAndLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	kept := results.Campaigns{Tables: []*results.Campaign{{Name: "long", Runs: []results.Run{{Store: "<redis>", Seed: "0x1", Lasts: "15s"}}}}}
	if err := results.Keep(file, kept); err != nil {
		t.Fatal(err)
	}
	var loaded results.Campaigns
	if err := results.Load(file, &loaded); err != nil || !reflect.DeepEqual(loaded, kept) {
		t.Errorf("loaded %+v, error %v", loaded, err)
	}
	if err := results.Load(file, new(results.Recorded)); err == nil {
		t.Error("a file of another kind is loaded")
	}
	if _, err := loaded.Table("short"); err == nil || !strings.Contains(err.Error(), "there are: long") {
		t.Errorf("got error %v", err)
	}
}

func TestFill(t *testing.T) {
	const document = "before\n<!-- make it writes from here -->\nold\n<!-- to here -->\nafter\n"
	got, err := results.Fill(document, "make it", "new\n")
	if want := strings.Replace(document, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, error %v", got, err)
	}
	if got, err := results.Fill(document, "make another", ""); err == nil {
		t.Errorf("without its line it is filled: %q", got)
	}
}
