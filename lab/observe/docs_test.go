package observe_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// The table of docs/observe.md lists each metric, with its name in Prometheus, its type, unit
// and labels.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `holdfast.") {
			rows[strings.Trim(cells[0], "| `")] = cells
		}
	}
	for _, m := range observe.Metrics() {
		row := rows[m.Name]
		if len(row) != 5 {
			t.Errorf("%s has no row", m.Name)
			continue
		}
		name, kind := "`"+strings.ReplaceAll(m.Name, ".", "_"), [...]string{"counter", "histogram", "gauge"}[m.Kind]
		if m.Unit == "s" {
			name += "_seconds"
		}
		if m.Kind == observe.Counter {
			name += "_total"
		}
		if !strings.HasPrefix(m.Unit, "{") {
			kind += ", " + m.Unit
		}
		if row[1] != name+"`" || row[2] != kind {
			t.Errorf("%s: %q, want %s` and %s", m.Name, row[1:3], name, kind)
		}
		if !strings.Contains(row[3], m.Label) {
			t.Errorf("%s has the labels %q, want %s", m.Name, row[3], m.Label)
		}
		for _, value := range m.Values {
			if !strings.Contains(row[3], "as of acquires") && !strings.Contains(row[3], "`"+value+"`") {
				t.Errorf("%s has the labels %q, want %s", m.Name, row[3], value)
			}
		}
	}
}

// A renewal begins when a third of the TTL has passed: docs/observe.md says what is left then.
func TestLowestRatios(t *testing.T) {
	text, err := os.ReadFile("../../docs/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+m?s|\d+m) \| (\d\.\d\d) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Error("no rows")
	}
	for _, row := range rows {
		ttl, err := time.ParseDuration(row[1])
		if err != nil {
			t.Fatal(err)
		}
		left := ttl - ttl/3 - driver.DefaultMargin(ttl)
		if want := strconv.FormatFloat(math.Floor(100*left.Seconds()/ttl.Seconds())/100, 'f', 2, 64); row[2] != want {
			t.Errorf("%v: %s, want %s", ttl, row[2], want)
		}
	}
}
