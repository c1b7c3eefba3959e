//go:build unix

// Package campaign runs fault campaigns (make faults): worker processes take locks while
// processes, networks and servers fail around them. Afterwards it checks, from what the workers
// recorded, that the locks kept their promises. A seed chooses the faults, so a campaign can be
// repeated as far as the timing of the machine allows.
package campaign

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/hosts"
	"github.com/holdfast-go/holdfast/lab/campaign/register"
	"github.com/holdfast-go/holdfast/lab/campaign/report"
	"github.com/holdfast-go/holdfast/lab/campaign/worker"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// Plan configures a campaign.
type Plan struct {
	Store     string // a key of places
	Seed      uint64
	Lasts     time.Duration
	Processes int
	Tasks     int // of each process
	Resources int
	TTL       time.Duration
	Crowd     int      // if not 0, processes only keep that many shared holds each, see worker.Config
	Unfenced  bool     // registers accept any token
	Unordered bool     // do not search for an order of decisions
	Histories string   // folder for histories whose order was not found in time; "": keep none
	Only      []string // names of the faults to use; empty: all
	Hosts     bool     // processes and server are on different hosts, see package hosts
	// Samples is the interval in which resource usage is measured. Workers then record no
	// history, and nothing is judged. 0: never.
	Samples time.Duration
	// Serve is the path of the command holdfast, for stores that processes reach through
	// holdfast serve.
	Serve string
	// Program is the path of the worker program: a test binary of this package, whose TestMain
	// calls worker.Main. If Stepped, it was built with package stepped, so that faults can move
	// its wall clock.
	Program string
	Stepped bool
}

// campaign is a running campaign.
type campaign struct {
	t         testing.TB
	plan      Plan
	place     *place
	rnd       *rand.Rand
	possible  []fault
	folder    string // of the files of processes
	registers []register.Address
	fronts    []*front           // empty: processes reach the store itself
	networks  []*proxy.Network   // one for each place of a process
	hosts     *hosts.Network     // nil: everything is on one host
	relays    map[string]string  // address on the server's host for a loopback address
	processes []*process         // running processes, by place
	all       []*process         // including those that have ended
	losses    []history.Interval // when the server lost data
	crashes   []history.Interval // when the server may have lost places in the queue
	away      []history.Interval // when no request reached the server
	unordered bool               // the search for an order did not finish
}

// longest is the longest duration of a fault, in TTLs.
const longest = 3

// Run runs a campaign.
func Run(t testing.TB, plan Plan) report.Run {
	t.Helper()
	t.Logf("%s: seed %#x", plan.Store, plan.Seed)
	checkNames(t, "store", slices.Sorted(maps.Keys(places)), plan.Store)
	checkNames(t, "fault", names(), plan.Only...)
	var resources []string
	for i := range plan.Resources {
		resources = append(resources, fmt.Sprint("r", i))
	}
	c := &campaign{
		t: t, plan: plan, place: places[plan.Store](t, resources), rnd: rand.New(rand.NewPCG(plan.Seed, 0)),
		folder: t.TempDir(), relays: make(map[string]string),
	}
	if c.place.prepare != nil {
		c.place.prepare(t)
	}
	if plan.Hosts {
		var err error
		if c.hosts, err = hosts.New(t, append([]string{serverHost}, clientHosts...)...); err != nil {
			t.Skip("needs network namespaces: ", err)
		}
	}
	c.serve()
	c.possible = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return f.can != nil && !f.can(c) || len(plan.Only) > 0 && !slices.Contains(plan.Only, f.name)
	})
	if len(c.possible) == 0 {
		t.Skipf("none of these faults is possible here: %s", strings.Join(plan.Only, ", "))
	}
	web := httptest.NewServer(&register.Server{})
	t.Cleanup(web.Close)
	c.registers = []register.Address{{Kind: "http", URL: web.URL}}
	if c.place.register.Kind != "" {
		c.registers = append(c.registers, c.place.register)
	}
	for i := range c.registers {
		c.registers[i].URL = c.reach(c.registers[i].URL)
	}
	for i := range plan.Processes {
		c.networks = append(c.networks, proxy.New(t))
		c.processes = append(c.processes, nil)
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, p := range c.processes {
			_ = p.finish(0)
		}
	})
	run := report.Run{
		Store: plan.Store, Seed: plan.Seed, Lasts: plan.Lasts, TTL: plan.TTL, Faults: c.injectFaults(),
	}
	for _, p := range c.processes {
		if err := p.finish(time.Minute); err != nil {
			t.Errorf("worker %d: %v\n%s", p.number, err, p.said.String())
		}
	}
	err := c.checkLeftovers()
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
	run.Processes = len(c.all)
	if plan.Samples > 0 {
		run.Samples, err = c.samples()
		if err != nil {
			t.Error(err)
		}
		if run.Records, err = c.place.records(t.Context()); err != nil {
			t.Error(err)
		}
		return run
	}
	for _, p := range c.all {
		events, err := history.Read(p.journal, p.at)
		if err != nil {
			t.Error(err)
		}
		run.Events = append(run.Events, events...)
	}
	run.Violations = c.judge(run.Events)
	run.Unordered = c.unordered
	return run
}

// checkNames ends the test at an unknown name.
func checkNames(t testing.TB, what string, all []string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(all, name) {
			t.Fatalf("no %s is called %q; there are: %s", what, name, strings.Join(all, ", "))
		}
	}
}

// start starts a process at a place.
func (c *campaign) start(place int) error {
	p, err := c.launch(place, c.config(c.reach(c.place.through(c.t, c.networks[place]))))
	if err != nil {
		return err
	}
	c.processes[place] = p
	return nil
}

// config returns the configuration of the next process.
func (c *campaign) config(store string) worker.Config {
	return worker.Config{
		Every: c.plan.Samples, Process: len(c.all), Store: store, Registers: c.registers, Unfenced: c.plan.Unfenced,
		Seed: c.plan.Seed, Tasks: c.plan.Tasks, Resources: c.plan.Resources, TTL: c.plan.TTL, Crowd: c.plan.Crowd,
		Long: len(c.fronts) > 0, // renewals come to the store from another process
	}
}

// launch starts a process at a place, or in addition to those at places.
func (c *campaign) launch(place int, config worker.Config) (*process, error) {
	command := []string{c.plan.Program}
	if c.hosts != nil {
		command = c.hostOf(place).Command(command...)
	}
	p, err := start(command, c.folder, place, config)
	if err == nil {
		c.all = append(c.all, p)
	}
	return p, err
}

// checkLeftovers takes each lock once more after all other processes have ended. It fails if a
// hold lasts longer than the time of a late request plus a TTL, or if the place of a fair
// waiter that is gone lasts longer than the store keeps places.
func (c *campaign) checkLeftovers() error {
	config := c.config(c.reach(c.place.url))
	config.Each, config.Every, config.Crowd = max(c.grace(), driver.FairPlaceTTL+c.plan.TTL), 0, 0
	p, err := c.launch(0, config)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Duration(c.plan.Resources) * config.Each):
	}
	if err := p.finish(time.Minute); err != nil {
		return fmt.Errorf("%w\n%s", err, p.said.String())
	}
	return nil
}

// grace is the time after which an abandoned request has reached the store, or never will.
func (c *campaign) grace() time.Duration { return (longest + 2) * c.plan.TTL }

// injectFaults makes faults happen, one after the other, until the campaign's time is over.
func (c *campaign) injectFaults() (happened []report.Fault) {
	for end := history.Now() + c.plan.Lasts; history.Now() < end; {
		c.pause(time.Duration(c.rnd.Int64N(int64(2 * c.plan.TTL))))
		f := c.possible[c.rnd.IntN(len(c.possible))]
		from := history.Now()
		if err := f.run(c, time.Duration(c.rnd.Int64N(int64(longest*c.plan.TTL)))); err != nil {
			c.t.Errorf("%s: %v", f.name, err)
		}
		happened = append(happened, report.Fault{Name: f.name, From: from, To: history.Now()})
	}
	return happened
}

// randomPlaces returns the places of at least one process.
func (c *campaign) randomPlaces() []int {
	places := c.rnd.Perm(len(c.networks))
	return places[:1+c.rnd.IntN(len(places))]
}

// pause waits without a change.
func (c *campaign) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.t.Context().Done():
	}
}
