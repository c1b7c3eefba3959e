package holdfast_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	programsFor  = flag.Duration("programs.for", 2*time.Second, "for how long TestRandomPrograms runs programs")
	programsSeed = flag.Uint64("programs.seed", 0, "the seed of the one program that TestRandomPrograms runs for that long; 0: random ones")
	programsOnly = flag.String("programs.only", "", "the parts of that program that are left, as a failure names them; empty: all")
	shrinkFor    = flag.Duration("programs.shrink", 10*time.Second, "for how long TestRandomPrograms makes a program that failed smaller")
)

// TestRandomPrograms runs random programs against a store in memory: several Clients whose
// goroutines call the whole API, on networks that lose, delay and repeat requests, on
// machines that are suspended. A judge in the store sees all requests and holds, and reports
// which promise of the Client was broken.
//
// The seed decides what a program does, but not which of several goroutines runs first at the
// same instant, nor the Client's own jitter: a program may have to run several times until it
// fails again.
func TestRandomPrograms(t *testing.T) {
	var ran, grants atomic.Int64
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for time.Since(began) < *programsFor {
					p := program{seed: *programsSeed, only: strings.Fields(*programsOnly)}
					if p.seed == 0 {
						p = program{seed: rand.Uint64()}
					}
					r := p.run(t)
					ran.Add(1)
					grants.Add(int64(r.granted))
					if len(r.violations) > 0 {
						t.Errorf("after %d programs in %v:\n%s", ran.Load(), time.Since(began).Round(time.Millisecond), p.explain(t, r))
						return
					}
				}
			})
		}
	})
	t.Logf("%d programs, %d grants", ran.Load(), grants.Load())
	if grants.Load() < 5*ran.Load() {
		t.Error("too few grants to show anything")
	}
}

// program is determined by a seed, or by the parts of it that are left.
type program struct {
	seed uint64
	only []string // nil: all
}

// shape is the size of a program.
type shape struct{ clients, resources, workers, steps int }

func (p program) shape() shape {
	rnd := p.random("shape", 0)
	return shape{clients: 2 + rnd.IntN(4), resources: 1 + rnd.IntN(3), workers: 2 + rnd.IntN(7), steps: 1 + rnd.IntN(10)}
}

// random returns the random source of the part with that name. So leaving a part out does not
// change the others.
func (p program) random(part string, n int) *rand.Rand {
	h := uint64(n)
	for _, b := range []byte(part) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(p.seed, h))
}

// The parts of a program that can be left out: the steps of its goroutines and the faults of
// each process.
func stepPart(worker, step int) string { return fmt.Sprintf("w%d.%d", worker, step) }
func faultPart(process int) string     { return fmt.Sprintf("f%d", process) }

func (p program) parts() []string {
	if p.only != nil {
		return p.only
	}
	var all []string
	s := p.shape()
	for i := range s.clients {
		all = append(all, faultPart(i))
	}
	for w := range s.workers {
		for i := range s.steps {
			all = append(all, stepPart(w, i))
		}
	}
	return all
}

func (p program) has(part string) bool { return p.only == nil || slices.Contains(p.only, part) }

const (
	shrinkTries = 12  // how often a smaller program runs before it counts as correct
	shownEvents = 150 // of the journal, up to the failure
)

// explain shrinks the failed program and reports what it did.
func (p program) explain(t *testing.T, r *run) string {
	kind, _, _ := strings.Cut(r.violations[0], ":")
	began := time.Now()
	fails := func(smaller program) bool {
		for range shrinkTries {
			again := smaller.run(t)
			if slices.ContainsFunc(again.violations, func(v string) bool { return strings.HasPrefix(v, kind+":") }) {
				p, r = smaller, again
				return true
			}
		}
		return false
	}
	for size := max(len(p.parts())/2, 1); time.Since(began) < *shrinkFor; {
		parts, smaller := p.parts(), false
		for at := 0; at < len(parts) && time.Since(began) < *shrinkFor; at += size {
			left := slices.DeleteFunc(slices.Clone(p.parts()), func(part string) bool {
				return slices.Contains(parts[at:min(at+size, len(parts))], part)
			})
			smaller = len(left) > 0 && fails(program{p.seed, left}) || smaller
		}
		if size == 1 && !smaller {
			break
		}
		size = max(size/2, 1)
	}
	events := r.journal[max(r.failedAt-shownEvents, 0):r.failedAt]
	return fmt.Sprintf("%s\n\n%s\n\nto run it again: -programs.seed=%d -programs.only='%s'",
		strings.Join(r.violations, "\n"), strings.Join(events, "\n"), p.seed, strings.Join(p.only, " "))
}
