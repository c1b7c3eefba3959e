//go:build unix

package campaign_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/tests/campaign"
	"github.com/holdfast-go/holdfast/tests/campaign/judge"
	"github.com/holdfast-go/holdfast/tests/campaign/stepped"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// Clients and stores with a mistake in them break promises while those faults happen, and
// the judge sees it: where nothing is found without the mistake, there was something to
// find.
func TestMutants(t *testing.T) {
	slow := func(p *campaign.Plan) { p.Only, p.Tasks, p.Lasts = []string{campaign.Slow}, 2*p.Tasks, 15*p.TTL }
	// Many Clients wait for one resource, so that there are always places to pass.
	crowded := func(p *campaign.Plan) {
		p.Only, p.Processes, p.Tasks, p.Resources, p.Lasts = []string{campaign.StandsStill}, 8, 2, 1, 5*p.TTL
		p.Unordered = true // the search for an order of such grants, in vain, may take minutes
	}
	for name, m := range map[string]struct {
		store          string
		file, old, new string // of the root module
		plan           func(p *campaign.Plan)
		rule           judge.Rule
	}{
		"the deadline counts from the reply": {
			"redis", "hold.go", "deadline: c.deadlineOf(a.sent, a.q.TTL),", "deadline: c.deadlineOf(a.heard, a.q.TTL),",
			slow, judge.Beliefs,
		},
		"the margin is added": {
			"redis", "deadline.go", "return sent + ttl - cfg.marginOf(ttl)", "return sent + ttl + cfg.marginOf(ttl)",
			slow, judge.Beliefs,
		},
		"a place passes those before it": {
			"sqlite", "driver/model/place.go", "if len(r.Places) == 0 ||", "if len(r.Places) == 0 || !q.Place.IsZero() ||",
			crowded, judge.Turns,
		},
	} {
		t.Run(name, func(t *testing.T) {
			enoughOn(t, m.store)
			path, err := filepath.Abs(filepath.Join("../..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := overlay.Replaced(path, m.old, m.new)
			if err != nil {
				t.Fatal("the mutant is out of date: ", err)
			}
			p := plan(t, m.store)
			p.Program = filepath.Join(t.TempDir(), "worker")
			if err := stepped.TestBinary(t.Context(), ".", p.Program, map[string]string{path: text}); err != nil {
				t.Fatal(err)
			}
			m.plan(&p)
			v := found(t, p, m.rule)
			t.Logf("%s: caught by make faults, %s: %s", name, v.Rule, v.Text)
		})
	}
}
