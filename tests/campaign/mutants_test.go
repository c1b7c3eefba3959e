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

// Clients with a mistake in them break promises while those faults happen, and the judge
// sees it: where nothing is found without the mistake, there was something to find.
func TestMutants(t *testing.T) {
	const store = "redis"
	enoughOn(t, store)
	for name, m := range map[string]struct {
		file, old, new string // of the root module
		faults         []string
		rule           judge.Rule
	}{
		"the deadline counts from the reply": {
			"hold.go", "deadline: c.deadlineOf(a.sent, a.q.TTL),", "deadline: c.deadlineOf(a.heard, a.q.TTL),",
			[]string{campaign.Slow}, judge.Beliefs,
		},
		"the margin is added": {
			"deadline.go", "return sent + ttl - cfg.marginOf(ttl)", "return sent + ttl + cfg.marginOf(ttl)",
			[]string{campaign.Slow}, judge.Beliefs,
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
			p := plan(t, store)
			p.Program = filepath.Join(t.TempDir(), "worker")
			if err := stepped.TestBinary(t.Context(), ".", p.Program, map[string]string{path: text}); err != nil {
				t.Fatal(err)
			}
			p.Only, p.Tasks, p.Lasts = m.faults, 2*p.Tasks, 15*p.TTL
			v := found(t, p, m.rule)
			t.Logf("%s: caught by make faults, %s: %s", name, v.Rule, v.Text)
		})
	}
}
