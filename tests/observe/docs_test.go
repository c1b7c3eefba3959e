package observe_test

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/observe"
)

// The table of docs/observe.md has each metric, with its name in Prometheus, its type, unit
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
