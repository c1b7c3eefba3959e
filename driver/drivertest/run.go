package drivertest

import "testing"

// subtest is one property of a store. The subtest of a scenario begins with its number;
// docs/dev/scenarios.md lists them.
type subtest struct {
	name string
	run  func(b *bench)
}

// Run checks the store that open makes, with a new store for each subtest. The subtests run
// in parallel.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	for _, topic := range [][]subtest{
		ownership, records, modes, lifetimes, batches, views, sweeping, waking, queueing, outages, naming, histories,
		churning,
	} {
		for _, s := range topic {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(newBench(t, open))
			})
		}
	}
}

// Outages runs the part of Run that needs Break, Restart and HoldCopies, one subtest after
// the other: for servers that are too expensive for all of Run, or that the subtests share.
func Outages(t *testing.T, open func(t *testing.T) *Harness) {
	for _, s := range outages {
		t.Run(s.name, func(t *testing.T) { s.run(newBench(t, open)) })
	}
}
