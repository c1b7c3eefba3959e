// Package eslock races programs with es-distributed-lock, with its drop-in and with
// Holdfast's own Client on package eslock for documents of one index: what one of
// them holds no other gets.
package eslock

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/lab/esnode"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rounds = flag.Int("interop.rounds", 100, "how many rounds TestRaces plays on each kind of server")

// arenas are played in at the same time. What an old program does waits for a
// refresh, which serves all who wait.
const arenas = 8

// kind is a kind of round.
type kind struct {
	name  string
	often int // among all
	play  func(*round)
}

var kinds = []kind{
	{"acquire", 4, acquiring},
	{"extension", 2, extending},
	{"release by query", 2, releasing},
	{"take-over", 1, takingOver},
	{"keep-alive", 1, keepingAlive},
}

// TestRaces plays rounds of each kind and looks for what must not be.
func TestRaces(t *testing.T) {
	thorough.Test(t, "hundreds of rounds on real leases")
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		var order []kind
		for _, k := range kinds {
			for range k.often {
				order = append(order, k)
			}
		}
		index, began := n.Index(t), time.Now()
		var mu sync.Mutex
		played, grants, kept := make(map[string]int), make(map[string]int), 0
		var wait sync.WaitGroup
		for number := range arenas {
			a := newArena(t, n, index, number, seed)
			wait.Go(func() {
				for i := number; i < *rounds && !t.Failed(); i += arenas {
					k := order[(i/arenas+number)%len(order)]
					r := a.play(t.Context(), k.play)
					for _, f := range r.Faults() {
						t.Errorf("round %d, %s: %s", i, k.name, f)
					}
					mu.Lock()
					played[k.name]++
					grants[k.name] += r.Grants()
					kept += int(r.kept.Load())
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		// A busy machine may have let each come to its end: one with more time is not.
		a := newArena(t, n, index, arenas, seed)
		for ttl := 2 * short; kept == 0 && ttl < patience && played["keep-alive"] > 0 && !t.Failed(); ttl *= 2 {
			r := a.play(t.Context(), func(r *round) {
				r.ttl = ttl
				keepingAlive(r)
			})
			for _, f := range r.Faults() {
				t.Errorf("keep-alive of %v: %s", ttl, f)
			}
			kept += int(r.kept.Load())
		}
		total := 0
		for _, k := range kinds {
			t.Logf("%6d rounds of %-17s %6d grants", played[k.name], k.name+":", grants[k.name])
			total += played[k.name]
			if played[k.name] > 0 && grants[k.name] == 0 { // on a busy machine not each round has one
				t.Errorf("%s: nobody was granted anything", k.name)
			}
		}
		t.Logf("%6d rounds in all, in %v; %d locks were kept alive", total, time.Since(began).Round(time.Second), kept)
		if kept == 0 && played["keep-alive"] > 0 {
			t.Error("no lock was kept alive")
		}
	})
}

// racers start a race of players, one of each kind, and return how to wait for its
// end. Each has two tries, and gives up what it gets: the first time not before all
// have tried, or who is granted too much would come too late to be seen.
func (r *round) racers() (wait func()) {
	var tried sync.WaitGroup
	tried.Add(len(r.kinds))
	fair := r.rnd.IntN(2) == 0
	return r.each(func(p player, a ask) {
		a.fair = fair
		h := r.lock(p, a)
		tried.Done()
		if h == nil {
			h = r.lock(p, a)
		}
		tried.Wait()
		if h != nil {
			h.end()
		}
	})
}

// successors are racers who do not give up.
func (r *round) successors() (wait func()) {
	return r.each(func(p player, a ask) {
		if h := r.holds(p, a); h != nil {
			h.end()
		}
	})
}

func (r *round) each(play func(player, ask)) (wait func()) {
	var running sync.WaitGroup
	for _, i := range r.rnd.Perm(len(r.kinds)) {
		p := r.kinds[i]
		a := ask{owner: fmt.Sprint("racer ", r.racer.Add(1)), mode: r.mode(p), ttl: long}
		running.Go(func() { play(p, a) })
	}
	return running.Wait
}

// acquiring: all at once want what is free.
func acquiring(r *round) { r.racers()() }

// extending: who has it acquires again while others are after it, and keeps it.
func extending(r *round) {
	h := r.holds(r.some(), ask{owner: "holder", ttl: long})
	wait := r.racers()
	for i := range 2 {
		if err := h.extend(r.ctx, time.Duration(i+2)*long); err != nil {
			r.Fault("extension by %s: %v", h.who, err)
		}
	}
	wait()
	source, _ := r.document()
	expires, err := time.Parse(time.RFC3339Nano, fmt.Sprint(source["expires"]))
	if err != nil || source["owner"] != "holder" || time.Until(expires) < 2*long {
		r.Fault("extended by %s, it is %v", h.who, source)
	}
	if !h.holds() {
		r.Fault("%s extended it and has lost it", h.who)
	}
	h.end()
}

// releasing: a release while others are after it frees it once. A second one, which
// comes late, does no harm to a successor.
func releasing(r *round) {
	h := r.holds(r.some(), ask{owner: "holder", ttl: long})
	wait := r.successors()
	h.end()
	wait()
	r.late(h)
}

// late: a release that comes when another has the resource does it no harm.
func (r *round) late(h *hold) {
	heir := r.holds(r.some(), ask{owner: "heir", ttl: long})
	if found, err := h.release(r.ctx); found || err != nil {
		r.Fault("the late release by %s: found %v, error %v", h.who, found, err)
	}
	r.refused(heir)
	heir.end()
}

// takingOver: what expires is had by others then, and not before. Who comes late
// with its release does no harm to a successor.
func takingOver(r *round) {
	h := r.holds(r.some(), ask{owner: "holder", ttl: short})
	r.refused(h)
	r.successors()()
	if h.holds() {
		r.Fault("%s was taken over before its end", h.who)
	}
	h.leave()
	h.over()
	r.late(h)
}

// keepingAlive: a lock that is kept alive outlives its TTL, while others are after
// it all the time.
func keepingAlive(r *round) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	h := r.holds(r.some(), ask{owner: "holder", ttl: r.ttl, keep: ctx})
	for began := time.Now(); h.holds() && time.Since(began) < r.ttl+r.ttl/4; {
		r.racers()()
	}
	if h.holds() {
		r.kept.Add(1)
	}
	// An old program that is about to extend it is in its own way, and may have it
	// again when it has released it: until it expires.
	cancel()
	h.leave()
	held, began := h.holds(), time.Now()
	found, err := h.release(r.ctx)
	inTime := held && time.Since(began) < r.ttl/8 // that it does not end meanwhile
	if err != nil || !found && inTime && h.kind != "old" {
		r.Fault("release by %s: found %v, error %v", h.who, found, err)
	}
	h.over()
	r.holds(r.someNew(), ask{owner: "heir", ttl: long}).end()
}
