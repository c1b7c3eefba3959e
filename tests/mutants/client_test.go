// Package mutants_test changes the Client for the worse, one mistake at a time,
// and demands that a test of the root module notices. A test that lets its mutant
// live proves nothing.
package mutants_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is one mistake: in the file, the text is replaced.
type mutant struct {
	name     string
	file     string // of the root module
	old, new string
	test     string // that must fail
}

var mutants = []mutant{
	{
		"the deadline counts from the reply", "hold.go",
		`deadline: c.deadlineOf(a.sent, a.q.TTL),`,
		`deadline: c.deadlineOf(a.heard, a.q.TTL),`,
		"TestS05_reply_lost",
	},
	{
		"no try after the subscription", "wait.go",
		"if watch.start(ctx) {\n\t\t\t\tcontinue\n\t\t\t}",
		"watch.start(ctx)",
		"TestS28_no_lost_wakeup",
	},
	{
		"a late answer revives the hold", "keepalive.go",
		"case now >= h.deadline:",
		"case false:",
		"TestLateReplyDoesNotRevive",
	},
	{
		"no margin", "options.go",
		"return sent + ttl - cfg.marginOf(ttl)",
		"return sent + ttl",
		"TestS20_renewals_hang",
	},
	{
		"a late grant is a success", "asker.go",
		"case err == nil && a.heard < c.deadlineOf(a.sent, a.q.TTL):",
		"case err == nil && a.heard < never:",
		"TestS08_grant_too_late",
	},
	{
		"a repeat is a new acquisition", "asker.go",
		"if a.unsure == 0 {",
		"if true {",
		"TestS05_reply_lost",
	},
	{
		"no clean-up", "release.go",
		"c.chase(q, attempts, asked)\n",
		"close(asked)\n",
		"TestS12_cancelled_in_mid_acquire",
	},
	{
		"a clean-up ends with the first answer", "release.go",
		"err == nil && (results[0].Found && attempts == 1 || closing == nil)",
		"err == nil",
		"TestS12_cancelled_in_mid_acquire",
	},
	{
		"a clean-up ends with what one of two attempts was granted", "release.go",
		"results[0].Found && attempts == 1",
		"results[0].Found",
		"TestS12_one_of_two_requests_late",
	},
	{
		"Unlock tells the store before the holder", "hold.go",
		"cancel(h.ended)\n\n\terr := c.releaseOne(ctx, driver.ReleaseRequest{HoldRef: h.ref, After: after}, deadline)",
		"err := c.releaseOne(ctx, driver.ReleaseRequest{HoldRef: h.ref, After: after}, deadline)\n\tcancel(h.ended)",
		"TestUnlockTellsTheHolderFirst",
	},
	{
		"a release that failed counts as done", "hold.go",
		"if err == nil && h.state == released {",
		"if h.state == released {",
		"TestUnlockRepeats",
	},
	{
		"a try stands in line", "lock.go",
		"if wait {\n",
		"if wait || true {\n",
		"TestTryPassesTheLine",
	},
	{
		"last come, first served", "line.go",
		"l.head, l.rest = l.rest[0], l.rest[1:]",
		"l.head, l.rest = l.rest[len(l.rest)-1], l.rest[:len(l.rest)-1]",
		"TestLineIsFIFO",
	},
	{
		"news that are out of date", "line.go",
		"!w.named || w.arrived > sent ||",
		"!w.named ||",
		"TestS25a_own_hold",
	},
	{
		"an orphan passes for an own hold", "line.go",
		"e.BySelf = false\n\t}\n\tl := ",
		"_ = e\n\t}\n\tl := ",
		"TestS25a_own_hold",
	},
	{
		"what is missing in a batch is lost", "keepalive.go",
		"case i >= len(results):\n",
		"case i >= len(results):\n\t\terr = ErrLost\n\t\treturn err\n",
		"TestBatchOutcomes",
	},
	{
		"a renewal shortens the lease", "keepalive.go",
		"h.deadline = max(h.deadline, c.deadlineOf(sent, ttl))",
		"h.deadline = c.deadlineOf(sent, ttl)",
		"TestRenew",
	},
	{
		"a schedule that is mended one by one", "keepalive.go",
		"c.schedule.reorder()",
		"for _, h := range due {\n\t\tc.schedule.moved(h)\n\t}",
		"TestScheduleStaysInOrder",
	},
	{
		"timers alone tell the time", "keepalive.go",
		"at := min(first.due(), now+lookout)",
		"at := first.due()",
		"TestS17a_machine_sleeps",
	},
}

func TestClientMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the root module's tests once for each mutant; run without -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, m := range mutants {
		tests = append(tests, m.test)
	}
	slices.Sort(tests)
	if out, err := run(t, root, strings.Join(slices.Compact(tests), "|")); err != nil {
		t.Fatalf("the tests fail without any mutant: %v\n%s", err, out)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			out, err := run(t, root, m.test, "-overlay", m.overlay(t, root))
			switch {
			case err == nil:
				t.Errorf("%s lets it live:\n%s", m.test, out)
			case !strings.Contains(out, "--- FAIL: "+m.test):
				t.Errorf("not a failure of %s (%v):\n%s", m.test, err, out)
			}
		})
	}
}

// overlay writes what tells the go command to compile the mutant.
func (m mutant) overlay(t *testing.T, root string) string {
	t.Helper()
	path, dir := filepath.Join(root, m.file), t.TempDir()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("the mutant is out of date: %s has %d times %q, want once", m.file, n, m.old)
	}
	changed := filepath.Join(dir, m.file)
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// run runs the tests of the root package that the pattern names in full.
func run(t *testing.T, root, pattern string, flags ...string) (string, error) {
	t.Helper()
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=60s", "-run", "^(" + pattern + ")$"}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	cmd.Dir = root
	// As in a clean clone: no workspace, and no flags of the caller's, such as
	// -race, which would only make it slow.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
