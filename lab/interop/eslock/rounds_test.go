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

// arenas is how many arenas are played at the same time. A statement of an old program waits
// for a refresh of the index, which serves all waiting requests.
const arenas = 8

// kind is a kind of round.
type kind struct {
	name  string
	often int // how many of ten rounds
	play  func(*round)
}

var kinds = []kind{
	{"acquire", 4, acquiring},
	{"extension", 2, extending},
	{"release by query", 2, releasing},
	{"take-over", 1, takingOver},
	{"keep-alive", 1, keepingAlive},
}

// TestRaces plays rounds of each kind and fails if one has a fault.
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
		// On a busy machine every lock may have expired: try one with more time.
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
			if played[k.name] > 0 && grants[k.name] == 0 { // a single round may have none on a busy machine
				t.Errorf("%s: no grants", k.name)
			}
		}
		t.Logf("%6d rounds in all, in %v; %d locks were kept alive", total, time.Since(began).Round(time.Second), kept)
		if kept == 0 && played["keep-alive"] > 0 {
			t.Error("no lock was kept alive")
		}
	})
}

// racers starts a race of players, one of each kind, and returns a function that waits for its
// end. Each player has two tries and releases the lock that it gets. The first tries keep their
// locks until all players have tried, or a wrong grant would come too late to be seen.
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

// successors starts racers that try until they get the lock.
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

// acquiring: all players try to get a free resource at once.
func acquiring(r *round) { r.racers()() }

// extending: the holder extends its lock while others try to get it, and keeps it.
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

// releasing: a release while others try to get the lock frees it once. A second, late release
// does not affect a successor.
func releasing(r *round) {
	h := r.holds(r.some(), ask{owner: "holder", ttl: long})
	wait := r.successors()
	h.end()
	wait()
	r.lateRelease(h)
}

// lateRelease: a late release does not affect another holder.
func (r *round) lateRelease(h *hold) {
	successor := r.holds(r.some(), ask{owner: "successor", ttl: long})
	if found, err := h.release(r.ctx); found || err != nil {
		r.Fault("the late release by %s: found %v, error %v", h.who, found, err)
	}
	r.refused(successor)
	successor.end()
}

// takingOver: other players get an expired lock, and not before its end. A late release does
// not affect a successor.
func takingOver(r *round) {
	h := r.holds(r.some(), ask{owner: "holder", ttl: short})
	r.refused(h)
	r.successors()()
	if h.holds() {
		r.Fault("%s was taken over before its end", h.who)
	}
	h.leave()
	h.over()
	r.lateRelease(h)
}

// keepingAlive: a lock that is kept alive outlives its TTL while others try to get it all the
// time.
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
	// An old program that is just extending its lock competes with its own release: it may have
	// the lock again after the release, until it expires.
	cancel()
	h.leave()
	held, began := h.holds(), time.Now()
	found, err := h.release(r.ctx)
	inTime := held && time.Since(began) < r.ttl/8 // short enough that the hold does not expire before the release
	if err != nil || !found && inTime && h.kind != "old" {
		r.Fault("release by %s: found %v, error %v", h.who, found, err)
	}
	h.over()
	r.holds(r.someNew(), ask{owner: "successor", ttl: long}).end()
}
