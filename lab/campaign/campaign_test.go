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

var built string // the folder of what the tests build

// program is a test binary of this package whose wall clock can be moved.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "worker")
	return path, stepped.TestBinary(context.Background(), ".", path, nil)
})

// serve is the command that serves locks over HTTP.
var serve = sync.OnceValues(func() (string, error) { return command.Build(context.Background(), built, nil) })

// isServed reports whether processes reach a store through holdfast serve.
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
		p.Tasks = 3 // more requests are under way at a time, and their order must be found
	}
	if *only != "" {
		p.Only = []string{*only}
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	return p
}

// enough skips what has something to show only where faults happen for a while.
func enough(t *testing.T) {
	t.Helper()
	if *lasts < 10*time.Second || *only != "" {
		t.Skip("takes a minute; make faults without a FAULT runs it")
	}
}

// enoughOn is enough for what runs on one store, whichever are asked for.
func enoughOn(t *testing.T, store string) {
	t.Helper()
	enough(t)
	if !slices.Contains(strings.Split(*stores, ","), store) {
		t.Skipf("runs on %s, which is not among the stores", store)
	}
}

// Registers that take whatever token let stale writes through, and the judge sees it:
// where nothing is found with the fence, there was something to find.
func TestWithoutFence(t *testing.T) {
	const store = "sqlite"
	enoughOn(t, store)
	p := plan(t, store)
	p.Unfenced, p.Only, p.Resources, p.Lasts = true, []string{campaign.StandsStill}, 2*p.Processes, 15*p.TTL
	v := found(t, p, judge.Writes)
	t.Logf("%s: %s", v.Rule, v.Text)
}

// rounds is how many campaigns may miss what they are to find.
const rounds = 12

// found runs campaigns until one finds that one of these promises was broken, and wants that
// no other one is.
func found(t *testing.T, p campaign.Plan, rules ...judge.Rule) judge.Violation {
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

// Whatever fails, all promises are kept. Each campaign says in a line of a table: store,
// seed, how long, processes, requests, those without an answer, locks taken, writes,
// faults, broken promises.
func TestFaults(t *testing.T) {
	for store := range strings.SplitSeq(*stores, ",") {
		t.Run(store, func(t *testing.T) {
			if store != "sqlite" {
				thorough.Test(t, "a campaign beside a server")
			}
			judged(t, "", plan(t, store))
		})
	}
}

// Processes that hold one resource by the hundred, among others that come and go,
// keep what they hold while some of them are killed and though their loggers are slow.
func TestCrowd(t *testing.T) {
	enough(t)
	for store := range strings.SplitSeq(*stores, ",") {
		if !slices.Contains([]string{"sqlite", "redis", "postgres"}, store) {
			continue // the conformance suite does so in each store, with fewer
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

// Clients and server are on three hosts, and the network between them drops what is
// sent one way, or both.
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
			continue // it needs no network, or the one that mongodb has
		case slices.Contains([]string{"postgres-standby", "redis-sentinel", "redis-sentinel-replica", "opensearch-cluster"}, store):
			continue // there is no network between, see place
		case isServed(store):
			continue // to another host it takes TLS
		}
		t.Run(store, func(t *testing.T) {
			thorough.Test(t, "a campaign on three hosts")
			p := plan(t, store)
			p.Hosts, p.Only, p.Lasts = true, partitions, p.Lasts/2
			judged(t, "hosts-", p)
		})
	}
}

// judged runs a campaign and wants all promises kept.
func judged(t *testing.T, prefix string, p campaign.Plan) {
	t.Helper()
	o := campaign.Run(t, p)
	o.Command = again(t.Name(), p)
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

// again is the command that lets the same happen again.
func again(test string, p campaign.Plan) string {
	command := fmt.Sprintf("go -C lab test -count=1 -v -timeout 1h ./campaign -run '^%s$' -args -campaign=%v -campaign.stores=%s -campaign.seed=%#x",
		strings.ReplaceAll(test, "/", "$/^"), *lasts, p.Store, p.Seed)
	if *only != "" {
		command += fmt.Sprintf(" -campaign.only='%s'", *only)
	}
	return command
}

// names are those of the faults, each with how often it happened.
func names(often map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(often)) {
		words = append(words, fmt.Sprintf("%s (%d)", name, often[name]))
	}
	return strings.Join(words, ", ")
}
