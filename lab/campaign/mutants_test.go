//go:build unix

package campaign_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lab/campaign"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/campaign/stepped"
	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/internal/overlay"
)

// Clients and stores with a mistake break promises during these faults, and the judge detects
// it. So its silence without a mistake means something.
func TestMutants(t *testing.T) {
	slow := func(p *campaign.Plan) { p.Only, p.Tasks, p.Lasts = []string{campaign.Slow}, 2*p.Tasks, 15*p.TTL }
	// With many Clients waiting for one resource, there are always places to pass.
	crowded := func(p *campaign.Plan) {
		p.Only, p.Processes, p.Tasks, p.Resources, p.Lasts = []string{campaign.StandsStill}, 8, 2, 1, 5*p.TTL
		p.Unordered = true // searching in vain for an order of such grants may take minutes
	}
	// Servers are cut off for longer than a TTL, and holders continue to renew.
	unanswered := func(p *campaign.Plan) {
		p.Only, p.Lasts, p.Unordered = []string{campaign.ServeIsCutOff}, 15*p.TTL, true
	}
	for name, m := range map[string]struct {
		store          string
		file, old, new string // of the root module
		plan           func(p *campaign.Plan)
		rules          []judge.Rule
		serve          bool // the mistake is in holdfast serve instead of in the Client
	}{
		"the deadline counts from the reply": {
			"redis", "internal/lease/lease.go", "l.renewAt = ls.Deadline(sent, lease)", "l.renewAt = ls.Deadline(now, lease)",
			slow, []judge.Rule{judge.Beliefs}, false,
		},
		"the margin is added": {
			"redis", "internal/lease/lease.go", "return sent + ttl - ls.Margin(ttl)", "return sent + ttl + ls.Margin(ttl)",
			slow, []judge.Rule{judge.Beliefs}, false,
		},
		"a place passes those before it": {
			"sqlite", "driver/model/place.go", "case p.Fair && !f(p):", "case p.Fair && q.Place.IsZero() && !f(p):",
			crowded, []judge.Rule{judge.Turns}, false,
		},
		"a renewal that was not answered reads as made": {
			"serve", "httplock/wire/batch.go", "if r.Err != nil {\n\t\treturn RenewResult{", "if r.Err != nil && OutcomeOf(r.Err) != Unknown {\n\t\treturn RenewResult{",
			unanswered, []judge.Rule{judge.Exclusion, judge.Beliefs}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := overlay.Replaced(path, m.old, m.new)
			if err != nil {
				t.Fatal("the mutant is out of date: ", err)
			}
			needsFaultsOn(t, m.store)
			p, texts := plan(t, m.store), map[string]string{path: text}
			if m.serve {
				p.Serve, err = command.Build(t.Context(), t.TempDir(), texts)
			} else {
				p.Program = filepath.Join(t.TempDir(), "worker")
				err = stepped.TestBinary(t.Context(), ".", p.Program, texts)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.plan(&p)
			v := wantViolation(t, p, m.rules...)
			t.Logf("%s: caught by make faults, %s: %s", name, v.Rule, v.Text)
		})
	}
}
