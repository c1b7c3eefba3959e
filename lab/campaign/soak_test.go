//go:build unix

package campaign_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign"
	"github.com/holdfast-go/holdfast/lab/campaign/report"
	"github.com/holdfast-go/holdfast/lab/campaign/worker"
)

var soak = flag.Duration("soak", 0, "how long processes work that must not grow; 0: TestSoak is skipped")

// use is a resource whose usage must not grow.
type use struct {
	name  string
	of    func(worker.Sample) int
	slack int // growth that is ignored
}

// grew compares the second quarter of a process's samples with the last one.
func (u use) grew(samples []worker.Sample) (before, after int, grew bool) {
	quarter := len(samples) / 4
	before, after = median(samples[quarter:2*quarter], u.of), median(samples[len(samples)-quarter:], u.of)
	return before, after, after > before+before/10+u.slack
}

var uses = []use{
	{"goroutines", func(s worker.Sample) int { return s.Goroutines }, 10},
	{"open files and connections", func(s worker.Sample) int { return s.Files }, 5},
	{"reachable memory, KB", func(s worker.Sample) int { return s.Heap / 1024 }, 512},
	{"resident memory, KB", func(s worker.Sample) int { return s.Resident / 1024 }, 8 << 10},
}

// Two hundred workers take locks in four stores, over connections that break from time to time.
// They use no more in the last quarter of the time than in the second.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("takes its time; run make soak")
	}
	var table soaked
	for _, store := range []string{"sqlite", "redis", "postgres", "mongodb"} {
		t.Run(store, func(t *testing.T) {
			p := plan(t, store)
			p.Processes, p.Tasks, p.Resources, p.TTL = 5, 10, 20, 3*time.Second
			p.Lasts, p.Samples, p.Only = *soak, *soak/180, []string{campaign.Breaks, campaign.Slow, campaign.StandsStill}
			t.Parallel()
			o := campaign.Run(t, p)
			if o.Records > p.Resources {
				t.Errorf("%d resources have %d records", p.Resources, o.Records)
			}
			table.add(t, o)
		})
	}
	t.Cleanup(func() {
		slices.Sort(table.lines)
		t.Logf("| store | what | second quarter | last quarter |\n| --- | --- | --- | --- |\n%s", strings.Join(table.lines, "\n"))
	})
}

// soaked collects the lines of a table.
type soaked struct {
	mu    sync.Mutex
	lines []string
}

// add compares the quarters of each process, and adds the largest values to the table.
func (s *soaked) add(t *testing.T, o report.Run) {
	t.Helper()
	if len(o.Samples) == 0 {
		t.Fatal("no process ran all the time")
	}
	locks := 0
	for _, samples := range o.Samples {
		if len(samples) < 20 {
			t.Fatalf("%d samples of a process", len(samples))
		}
		locks += samples[len(samples)-1].Locks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("| %s | locks taken; faults; records of resources in the end | | %d; %d; %d |", o.Store, locks, len(o.Faults), o.Records))
	for _, u := range uses {
		var before, after int
		for _, samples := range o.Samples {
			b, a, grew := u.grew(samples)
			if grew {
				t.Errorf("%s of a process grew from %d to %d", u.name, b, a)
			}
			before, after = max(before, b), max(after, a)
		}
		s.lines = append(s.lines, fmt.Sprintf("| %s | %s | %d | %d |", o.Store, u.name, before, after))
	}
}

func median(samples []worker.Sample, of func(worker.Sample) int) int {
	var values []int
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// The check detects a leak of each kind, and no leak without one.
func TestGrowth(t *testing.T) {
	var leaks, stays []worker.Sample
	for i := range 100 {
		leaks = append(leaks, worker.Sample{Goroutines: 50 + i, Files: 50 + i, Heap: (1 + i) << 20, Resident: (1 + i) << 20})
		stays = append(stays, worker.Sample{Goroutines: 50 + i%2, Files: 50 + i%2, Heap: (10 + i%2) << 10, Resident: (10 + i%2) << 20})
	}
	for _, u := range uses {
		if b, a, grew := u.grew(leaks); !grew {
			t.Errorf("%s: from %d to %d is not noticed", u.name, b, a)
		}
		if b, a, grew := u.grew(stays); grew {
			t.Errorf("%s: from %d to %d is growth", u.name, b, a)
		}
	}
}
