//go:build unix

package campaign_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/holdfast-go/holdfast/eslock/esurl"
	_ "github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/lab/campaign"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/campaign/report"
	"github.com/holdfast-go/holdfast/lab/campaign/stepped"
	"github.com/holdfast-go/holdfast/lab/campaign/worker"
	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/internal/results"
	"github.com/holdfast-go/holdfast/lab/thorough"
	_ "github.com/holdfast-go/holdfast/mongolock"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/redislock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

var (
	lasts  = flag.Duration("campaign", 3*time.Second, "how long faults happen")
	seed   = flag.Uint64("campaign.seed", 0, "of what happens; 0: any")
	pages  = flag.String("campaign.report", "", "folder for a page of each campaign")
	only   = flag.String("campaign.only", "", "the name of the fault that happens; any, if empty")
	stores = flag.String("campaign.stores", "sqlite,redis,postgres", "that take part")
)

func TestMain(m *testing.M) {
	if os.Getenv(worker.Variable) != "" {
		os.Exit(worker.Main())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "holdfast-campaign-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(built)
	return m.Run()
}

var built string // the folder of built programs

// program builds a test binary of this package whose wall clock can be moved.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "worker")
	return path, stepped.TestBinary(context.Background(), ".", path, nil)
})

// serve builds the command holdfast.
var serve = sync.OnceValues(func() (string, error) { return command.Build(context.Background(), built, nil) })

// isServed reports whether processes reach the store through holdfast serve.
func isServed(store string) bool { return strings.HasPrefix(store, "serve") }

func plan(t *testing.T, store string) campaign.Plan {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := campaign.Plan{
		Store: store, Seed: *seed, Lasts: *lasts, Processes: 4, Tasks: 4, Resources: 3, TTL: time.Second, Program: path, Stepped: true, Histories: *pages,
	}
	if isServed(store) {
		if p.Serve, err = serve(); err != nil {
			t.Fatal(err)
		}
		p.Tasks = 3 // more requests are in flight at a time, which makes the search for their order harder
	}
	if *only != "" {
		p.Only = []string{*only}
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	return p
}

// needsFaults skips a test that needs faults for a longer time.
func needsFaults(t *testing.T) {
	t.Helper()
	if *lasts < 10*time.Second || *only != "" {
		t.Skip("takes a minute; make faults without a FAULT runs it")
	}
}

// needsFaultsOn is needsFaults for a test on one store. It also skips the test if that store is
// not among the stores to test.
func needsFaultsOn(t *testing.T, store string) {
	t.Helper()
	needsFaults(t)
	if !slices.Contains(strings.Split(*stores, ","), store) {
		t.Skipf("runs on %s, which is not among the stores", store)
	}
}

// Registers that accept any token let stale writes through, and the judge detects that. So the
// silence of the judge with fencing means something.
func TestWithoutFence(t *testing.T) {
	const store = "sqlite"
	needsFaultsOn(t, store)
	p := plan(t, store)
	p.Unfenced, p.Only, p.Resources, p.Lasts = true, []string{campaign.StandsStill}, 2*p.Processes, 15*p.TTL
	v := wantViolation(t, p, judge.Writes)
	t.Logf("%s: %s", v.Rule, v.Text)
}

// rounds is how many campaigns may miss the violation.
const rounds = 12

// wantViolation runs campaigns until one breaks one of the rules, and fails if one breaks
// another rule.
func wantViolation(t *testing.T, p campaign.Plan, rules ...judge.Rule) judge.Violation {
	t.Helper()
	for range rounds {
		o := campaign.Run(t, p)
		for _, v := range o.Violations {
			if !slices.Contains(rules, v.Rule) {
				t.Errorf("%s: %s", v.Rule, v.Text)
			}
		}
		if len(o.Violations) > 0 {
			return o.Violations[0]
		}
		p.Seed++
	}
	t.Fatalf("%d campaigns did not find it", rounds)
	panic("unreachable")
}

// All promises hold during all faults. Each campaign logs a row of a table: store, seed,
// duration, processes, requests, requests without an answer, locks taken, writes, faults,
// broken promises.
func TestFaults(t *testing.T) {
	for store := range strings.SplitSeq(*stores, ",") {
		t.Run(store, func(t *testing.T) {
			if store != "sqlite" {
				thorough.Test(t, "a campaign beside a server")
			}
			wantNoViolation(t, "", plan(t, store))
		})
	}
}

// Processes with a hundred shared holds of one resource keep them while others come and go,
// randomPlaces processes are killed, and loggers are slow.
func TestCrowd(t *testing.T) {
	needsFaults(t)
	for store := range strings.SplitSeq(*stores, ",") {
		if !slices.Contains([]string{"sqlite", "redis", "postgres"}, store) {
			continue // the conformance suite does this in each store, with fewer holds
		}
		t.Run(store, func(t *testing.T) {
			p := plan(t, store)
			p.Crowd, p.TTL, p.Only = 100, 5*time.Second, []string{campaign.Killed}
			if o := campaign.Run(t, p); len(o.Violations) > 0 {
				t.Errorf("%d broken promises of processes that note nothing", len(o.Violations))
			}
		})
	}
}

// Clients and server are on three hosts, and the network between them drops packets in one
// direction or in both.
func TestHosts(t *testing.T) {
	partitions := campaign.Partitions
	switch {
	case slices.Contains(partitions, *only):
		partitions = []string{*only}
	case *only != "":
		t.Skip("it is about partitions")
	}
	for store := range strings.SplitSeq(*stores, ",") {
		switch {
		case store == "sqlite", strings.HasPrefix(store, "mongodoc-"):
			continue // no network, or the same as mongodb
		case slices.Contains([]string{"postgres-standby", "redis-sentinel", "redis-sentinel-replica", "opensearch-cluster"}, store):
			continue // no network can be put between, see place
		case isServed(store):
			continue // requires TLS between hosts
		}
		t.Run(store, func(t *testing.T) {
			thorough.Test(t, "a campaign on three hosts")
			p := plan(t, store)
			p.Hosts, p.Only, p.Lasts = true, partitions, p.Lasts/2
			wantNoViolation(t, "hosts-", p)
		})
	}
}

// wantNoViolation runs a campaign and fails if a promise is broken.
func wantNoViolation(t *testing.T, prefix string, p campaign.Plan) {
	t.Helper()
	o := campaign.Run(t, p)
	o.Command = repeatCommand(t.Name(), p)
	if *pages != "" {
		page, err := os.Create(filepath.Join(*pages, fmt.Sprintf("%s%s-%x.html", prefix, p.Store, o.Seed)))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(report.Write(page, o), page.Close()); err != nil {
			t.Fatal(err)
		}
		t.Log("report: ", page.Name())
	}
	r := report.Recorded(o)
	r.Run.Date, r.Run.Hosts = time.Now().UTC().Format(time.DateOnly), p.Hosts
	if len(p.Only) == 1 {
		r.Run.Only = p.Only[0]
	}
	if *pages != "" {
		if err := results.Keep(filepath.Join(*pages, fmt.Sprintf("%s%s-%x.json", prefix, p.Store, o.Seed)), r); err != nil {
			t.Error(err)
		}
	}
	t.Logf("| %s%s | %#x | %v | %d | %d | %d | %d | %d | %d: %s | %d |", prefix, p.Store, o.Seed, p.Lasts, o.Processes,
		r.Run.Requests, r.Run.Unanswered, r.Run.Locks, r.Run.Writes, len(o.Faults), names(r.Run.Named), len(o.Violations))
	for i, v := range o.Violations {
		if i < 5 {
			t.Errorf("%s: %s\n%s", v.Rule, v.Text, strings.Join(report.Lines(v.Events), "\n"))
		}
	}
	if len(o.Violations) > 5 {
		t.Errorf("and %d more", len(o.Violations)-5)
	}
}

// repeatCommand returns the command that repeats the campaign.
func repeatCommand(test string, p campaign.Plan) string {
	command := fmt.Sprintf("go -C lab test -count=1 -v -timeout 1h ./campaign -run '^%s$' -args -campaign=%v -campaign.stores=%s -campaign.seed=%#x",
		strings.ReplaceAll(test, "/", "$/^"), *lasts, p.Store, p.Seed)
	if *only != "" {
		command += fmt.Sprintf(" -campaign.only='%s'", *only)
	}
	return command
}

// names formats the faults, each with its count.
func names(often map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(often)) {
		words = append(words, fmt.Sprintf("%s (%d)", name, often[name]))
	}
	return strings.Join(words, ", ")
}
