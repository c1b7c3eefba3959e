//go:build unix

package examples_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are the metrics of an instance.
type metrics struct {
	t   *testing.T
	url string
}

// documented returns the names of all metrics in docs/observe.md, in Prometheus' form.
func documented(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../observe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `holdfast\\.[a-z.]+` \\| `(holdfast_[a-z_]+)` \\|").FindAllSubmatch(text, -1) {
		names = append(names, string(row[1]))
	}
	if len(names) == 0 {
		t.Fatal("no metrics")
	}
	return names
}

// scrape returns the values that are not 0: by name, and by name and the value of the label
// other than the group, as in holdfast_losses_total{forced}.
func (m *metrics) scrape(ctx context.Context) map[string]bool {
	m.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	found := make(map[string]bool)
	for name, family := range families {
		for _, one := range family.Metric {
			if !some(one) {
				continue
			}
			label := ""
			for _, l := range one.Label {
				if l.GetName() != "group" {
					label = l.GetValue()
				}
			}
			found[name], found[name+"{"+label+"}"] = true, true
		}
	}
	return found
}

// some reports whether the value is above 0; for a histogram, its sum.
func some(m *dto.Metric) bool {
	return m.Counter.GetValue() > 0 || m.Gauge.GetValue() > 0 || m.Histogram.GetSampleSum() > 0
}

// until waits for a scrape that has all given values.
func (m *metrics) until(names ...string) {
	m.t.Helper()
	if missing := m.within(patience, names...); len(missing) > 0 {
		m.t.Fatalf("not in the metrics within %v: %q", patience, missing)
	}
}

// provoke calls do again and again until a scrape has all given values.
func (m *metrics) provoke(do func(), names ...string) {
	m.t.Helper()
	for limit := time.Now().Add(patience); ; {
		do()
		switch missing := m.within(5*time.Second, names...); {
		case len(missing) == 0:
			return
		case time.Now().After(limit):
			m.t.Fatalf("not in the metrics within %v: %q", patience, missing)
		}
	}
}

// within returns the given values that no scrape had within the given time.
func (m *metrics) within(d time.Duration, names ...string) (missing []string) {
	m.t.Helper()
	for limit := time.Now().Add(d); ; {
		found := m.scrape(m.t.Context())
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found[name] })
		if len(missing) == 0 || time.Now().After(limit) {
			return missing
		}
	}
}
