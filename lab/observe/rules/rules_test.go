package rules_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/holdfast-go/holdfast/lab/observe/scenario"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
	"github.com/holdfast-go/holdfast/metrics/promholdfast"
)

const docs = "../../../docs/observe/"

var promql = parser.NewParser(parser.Options{})

// alerts returns the rules, checked as promtool check rules does.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(docs+"alerts.yml", false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	all := make(map[string]rulefmt.Rule)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if all[r.Alert].Alert != "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("rule %q", r.Alert)
			}
			all[r.Alert] = r
		}
	}
	return all
}

// panels returns the expressions of the dashboard, with values for its variables.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(docs + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
	all := make(map[string][]string)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], values.Replace(target.Expr))
		}
		if p.Description == "" || len(all[p.Title]) == 0 {
			t.Errorf("panel %q has no description or no expression", p.Title)
		}
	}
	return all
}

// scraped returns the names of series in a real scrape, each with the values of its labels.
func scraped(t *testing.T) map[string]map[string][]string {
	t.Helper()
	locks := promholdfast.New(nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(locks)
	all := make(map[string]map[string][]string)
	scenario.Run(t, memlock.New(nil), locks.Trace(), func() {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			names := []string{f.GetName()}
			if f.Metric[0].Histogram != nil {
				names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
			}
			for _, name := range names {
				all[name] = make(map[string][]string)
				for _, m := range f.Metric {
					for _, l := range m.Label {
						all[name][l.GetName()] = append(all[name][l.GetName()], l.GetValue())
					}
				}
			}
		}
	})
	return all
}

// ofServers returns the metrics of holdfast serve, which has those that its document has.
func ofServers(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/server-operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_server_\\w+)` \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// Each expression is valid, and each metric, label and value in it is in a real scrape.
func TestExpressions(t *testing.T) {
	series := scraped(t)
	for _, name := range ofServers(t) {
		series[name] = nil
	}
	used := make(map[string]bool)
	check := func(where, text string) {
		expr, err := promql.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			has, ok := series[selector.Name]
			if !ok {
				t.Errorf("%s: %s is not in a scrape", where, selector.Name)
			}
			used[selector.Name] = true
			for _, m := range selector.LabelMatchers {
				values, ok := has[m.Name]
				switch {
				case slices.Contains([]string{"__name__", "job", "instance", observe.GroupLabel}, m.Name):
				case !ok:
					t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
				case m.Type == labels.MatchEqual && !slices.Contains(values, m.Value),
					m.Type == labels.MatchRegexp && !slices.ContainsFunc(values, m.Matches):
					t.Errorf("%s: %s has no %s", where, selector.Name, m)
				}
			}
			return nil
		})
	}
	for name, rule := range alerts(t) {
		check("alert "+name, rule.Expr)
	}
	for title, exprs := range panels(t) {
		for _, expr := range exprs {
			check("panel "+title, expr)
		}
	}
	for name := range series {
		if !used[name] && !strings.HasPrefix(name, "holdfast_server_") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			t.Errorf("neither an alert nor a panel uses %s", name)
		}
	}
}
