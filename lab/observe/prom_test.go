package observe_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/observe/scenario"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
	"github.com/holdfast-go/holdfast/metrics/promholdfast"
)

// scrape reads the registry over HTTP, as Prometheus does.
func scrape(t *testing.T, g prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	page := httptest.NewRecorder()
	handler := promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	handler.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if page.Code != http.StatusOK {
		t.Fatalf("scrape: %s", page.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// values returns each series with its value, or with its number of samples.
func values(families map[string]*dto.MetricFamily) map[string]float64 {
	all := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if !strings.HasPrefix(l.GetName(), "otel_scope") {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			key := fmt.Sprintf("%s{%s}", name, strings.Join(labels, ","))
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all[key] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				all[key] = m.Gauge.GetValue()
			case dto.MetricType_HISTOGRAM:
				all[key] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return all
}

// after are the values of the series when scenario.Run calls look.
var after = map[string]float64{
	"holdfast_acquires_total{outcome=granted}": 6, // 1, forced, expired, cut, late, held
	"holdfast_acquires_total{outcome=held}":    2,
	"holdfast_acquires_total{outcome=lost}":    0,
	"holdfast_acquires_total{outcome=unknown}": 1,
	"holdfast_losses_total{cause=expired}":     1,
	"holdfast_losses_total{cause=forced}":      1,
	"holdfast_losses_total{cause=unreachable}": 1,
	"holdfast_releases_total{confirmed=true}":  1,
	"holdfast_releases_total{confirmed=false}": 1,

	"holdfast_attempt_duration_seconds{outcome=granted}": 6,
	"holdfast_attempt_duration_seconds{outcome=unknown}": 3,
	"holdfast_wait_duration_seconds{outcome=held}":       1,
	"holdfast_hold_duration_seconds{}":                   5,
	"holdfast_held{}":                                    1,
	"holdfast_waiting{}":                                 1,
}

func check(t *testing.T, got map[string]float64) {
	t.Helper()
	for key, want := range after {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s %v, want %v", key, v, want)
		}
	}
	if left := got["holdfast_hold_left_seconds{}"]; left < 25 || left > 28.125 {
		t.Errorf("%v s are left", left)
	}
	if ratio := got["holdfast_hold_left_ratio{}"]; ratio < .83 || ratio > .9375 {
		t.Errorf("%v of the TTL is left", ratio)
	}
	for _, at := range []string{"holdfast_renewals_total{outcome=renewed}", "holdfast_renewals_total{outcome=unknown}",
		"holdfast_renewals_total{outcome=lost}", "holdfast_attempt_duration_seconds{outcome=held}"} {
		if got[at] == 0 {
			t.Errorf("%s is 0", at)
		}
	}
}

// lint checks names, units and help as promtool does.
func lint(t *testing.T, g prometheus.Gatherer) (problems []string) {
	t.Helper()
	found, err := testutil.GatherAndLint(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		problems = append(problems, p.Metric+": "+p.Text)
	}
	return problems
}

func stores(t *testing.T) map[string]driver.Store {
	return map[string]driver.Store{"memory": memlock.New(nil), "SQLite": scenario.SQLite(t)}
}

func TestPrometheus(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			locks := promholdfast.New(nil)
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(locks)
			scenario.Run(t, store, locks.Trace(), func() {
				families := scrape(t, registry)
				check(t, values(families))
				if len(families) != len(observe.Metrics()) {
					t.Errorf("%d metrics: %v", len(families), slices.Sorted(maps.Keys(families)))
				}
				for _, problem := range lint(t, registry) {
					t.Error(problem)
				}
			})
			if got := values(scrape(t, registry)); got["holdfast_held{}"] != 0 || got["holdfast_waiting{}"] != 0 {
				t.Errorf("after Close: %v", got)
			}
		})
	}
}

func TestPrometheusGroups(t *testing.T) {
	locks := promholdfast.New(&promholdfast.Options{Group: func(resource string) string {
		group, _, _ := strings.Cut(resource, "/")
		return group
	}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(locks)
	scenario.Run(t, memlock.New(nil), locks.Trace(), func() {
		got := values(scrape(t, registry))
		for key, want := range map[string]float64{
			"holdfast_acquires_total{group=jobs,outcome=granted}":             3,
			"holdfast_losses_total{cause=forced,group=jobs}":                  1,
			"holdfast_losses_total{cause=unreachable,group=jobs}":             0,
			"holdfast_losses_total{cause=unreachable,group=cut}":              1,
			"holdfast_held{group=jobs}":                                       1,
			"holdfast_held{group=cut}":                                        0,
			"holdfast_waiting{group=jobs}":                                    1,
			"holdfast_hold_duration_seconds{group=jobs}":                      2,
			"holdfast_attempt_duration_seconds{group=silent,outcome=unknown}": 3,
		} {
			if v, ok := got[key]; !ok || v != want {
				t.Errorf("%s %v, want %v", key, v, want)
			}
		}
	})
}
