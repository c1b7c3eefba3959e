package mongolock

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongolock"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rounds = flag.Int("interop.rounds", 480, "how many rounds TestRaces plays")

// arenas is how many arenas are played at the same time.
const arenas = 4

func newOld(a *arena) player { return old{oldmongolock.New(a.coll, a.clock.Now), a.clock.Now} }

// kind is a kind of round.
type kind struct {
	name  string
	limit bool
	play  func(*round)
}

var kinds = []kind{
	{"exclusive against exclusive", false, func(r *round) { r.racers(2, modes(driver.Exclusive), true)() }},
	{"shared against exclusive", false, func(r *round) { r.racers(2, modes(driver.Exclusive, driver.Shared, driver.Shared), true)() }},
	{"shared with a limit", true, func(r *round) { r.racers(2, modes(driver.Shared), true)() }},
	{"expiry", false, expiry},
	{"unlock", false, unlocking},
	{"renew", false, renewing},
	{"status", false, looking},
	{"purge", false, purging},
}

// TestRaces plays rounds of each kind and fails if one has a fault.
func TestRaces(t *testing.T) {
	thorough.Test(t, "hundreds of rounds on real leases")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	played, grants := make(map[string]int), make(map[string]int)
	var wait sync.WaitGroup
	for n := range arenas {
		a := newArena(t, seed+uint64(n))
		wait.Go(func() {
			for i := n; i < *rounds && !t.Failed(); i += arenas {
				k := kinds[i/arenas%len(kinds)]
				granted, faults := a.play(t.Context(), k)
				for _, f := range faults {
					t.Errorf("round %d, %s: %s", i, k.name, f)
				}
				mu.Lock()
				played[k.name]++
				grants[k.name] += granted
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	total := 0
	for _, k := range kinds {
		t.Logf("%6d rounds of %-27s %6d grants", played[k.name], k.name+":", grants[k.name])
		total += played[k.name]
		if played[k.name] > 0 && grants[k.name] == 0 { // a single round may have none on a busy machine
			t.Errorf("%s: no grants", k.name)
		}
	}
	t.Logf("%6d rounds in all", total)
}

// modes returns a function that chooses one of the modes.
func modes(ms ...driver.Mode) func(*round) driver.Mode {
	return func(r *round) driver.Mode { return ms[r.rnd.IntN(len(ms))] }
}

// racers starts a race of players, one of each kind, and returns a function that waits for its
// end. Each player has some tries, and releases the locks that it gets. With fair, half of
// Holdfast's own players wait in turn. Later steps of the round must not rely on a free
// resource then: a waiter that has given up excludes others until its place is gone.
func (r *round) racers(tries int, mode func(*round) driver.Mode, fair bool) (wait func()) {
	var running sync.WaitGroup
	players := slices.Clone(r.kinds)
	r.rnd.Shuffle(len(players), func(i, j int) { players[i], players[j] = players[j], players[i] })
	for _, p := range players {
		r.racer++
		a := ask{r.resource, fmt.Sprint("racer ", r.racer), mode(r), 0, r.ttl(), fair && r.rnd.IntN(2) == 0}
		running.Go(func() {
			for range tries {
				if h := r.lockOf(p, a); h != nil {
					runtime.Gosched()
					h.end()
				}
			}
		})
	}
	return running.Wait
}

// ttl returns a TTL that does not end within a round, or 0.
func (r *round) ttl() time.Duration {
	if r.rnd.IntN(2) == 0 {
		return 0
	}
	return 100 * r.tick
}

// holds makes the player hold the resource, which is free.
func (r *round) holds(p player, lockID string, mode driver.Mode, ttl time.Duration) *hold {
	h := r.lock(p, lockID, mode, ttl)
	if h == nil {
		r.Fault("%s is refused what is free", p.kind())
		return &hold{r: r, who: "nobody", unlock: func() error { return nil }}
	}
	return h
}

// expiry: other players get an expired lock, and not before its end.
func expiry(r *round) {
	mode := modes(driver.Exclusive, driver.Shared)(r)
	h := r.holds(r.some(), "holder", mode, 2*r.tick)
	if r.clock.Set() {
		r.pass(2*r.tick - time.Millisecond)
	}
	if p := r.some(); r.lock(p, "early", driver.Exclusive, 0) != nil {
		r.Fault("%s took what %s holds", p.kind(), h.who)
	}
	h.leave()
	if r.clock.Set() {
		r.pass(time.Millisecond)
	} else {
		r.pass(2 * r.tick)
	}
	r.racers(1, modes(driver.Exclusive, driver.Shared), false)()
	// Only an expired lock may be left, which old clients respect. A late unlock does not
	// affect a successor.
	successor := r.holds(r.kinds[1+r.rnd.IntN(2)], "successor", driver.Exclusive, 0)
	h.end()
	r.refused(successor)
	successor.end()
}

// refused checks that nobody else gets a resource that is held exclusively.
func (r *round) refused(holder *hold) {
	if p := r.some(); r.lock(p, "intruder", modes(driver.Exclusive, driver.Shared)(r), 0) != nil {
		r.Fault("%s took what %s holds", p.kind(), holder.who)
	}
}

// unlocking: another program unlocks the lock ID while others race for the resource. The same
// lock ID then locks again. The late unlock of the first hold does not affect it if it names
// its hold, as the Client does.
func unlocking(r *round) {
	first := r.kinds[2]
	h := r.holds(first, "holder", modes(driver.Exclusive, driver.Shared)(r), r.ttl())
	wait := r.racers(1, modes(driver.Exclusive, driver.Shared), false)
	h.leave()
	r.try("unlock", r.some(), func(p player) error { return p.unlock(r.ctx, "holder") })
	wait()
	again := r.holds(r.some(), "holder", driver.Exclusive, r.ttl())
	h.end()
	r.refused(again)
	again.end()
}

// renewing: a lock that is renewed while others try to get it lives as long as the renewal
// says.
func renewing(r *round) {
	h := r.holds(r.some(), "holder", driver.Exclusive, 4*r.tick)
	wait := r.racers(1, modes(driver.Exclusive, driver.Shared), false)
	by := r.some()
	renewed, err := by.renew(r.ctx, "holder", 8*r.tick)
	if err != nil || !renewed {
		r.Fault("renewal by %s of what %s holds: %v, error %v", by.kind(), h.who, renewed, err)
	}
	wait()
	if r.clock.Set() {
		r.pass(8*r.tick - time.Millisecond)
		r.refused(h)
	}
	h.leave()
	if r.rnd.IntN(2) == 0 && r.clock.Set() {
		// This is too late: a renewal requires a live lock, or one with more than a second
		// left.
		r.pass(time.Millisecond)
		if renewed, err := r.some().renew(r.ctx, "holder", 8*r.tick); err != nil || renewed {
			r.Fault("renewed what has expired: %v, error %v", renewed, err)
		}
		r.racers(1, modes(driver.Exclusive), false)()
		return
	}
	// Renewal and unlock at once: the lock does not return after the unlock.
	var both sync.WaitGroup
	renewer, unlocker := r.some(), r.some()
	both.Go(func() {
		if _, err := renewer.renew(r.ctx, "holder", 8*r.tick); err != nil {
			r.Fault("renewal by %s: %v", renewer.kind(), err)
		}
	})
	r.try("unlock", unlocker, func(p player) error { return p.unlock(r.ctx, "holder") })
	both.Wait()
	r.holds(r.some(), "successor", driver.Exclusive, 0).end()
}

// looking: the status never shows an impossible state.
func looking(r *round) {
	wait := r.racers(1, modes(driver.Exclusive, driver.Shared), false)
	var readers sync.WaitGroup
	for _, p := range r.kinds {
		readers.Go(func() {
			for range 3 {
				x, s, err := p.status(r.ctx, r.resource)
				if err != nil || x > 1 || x == 1 && s > 0 {
					r.Fault("status by %s: %d exclusive and %d shared, error %v", p.kind(), x, s, err)
				}
			}
		})
	}
	readers.Wait()
	wait()
	h := r.holds(r.some(), "holder", driver.Shared, r.ttl())
	for _, p := range r.kinds {
		if x, s, err := p.status(r.ctx, r.resource); err != nil || x != 0 || s != 1 {
			r.Fault("status by %s: %d exclusive and %d shared, error %v", p.kind(), x, s, err)
		}
	}
	h.end()
}

// purging: expired locks, and other locks of their lock ID, are purged while others race for
// the resource. No racer's lock is purged.
func purging(r *round) {
	mode := modes(driver.Exclusive, driver.Shared)(r)
	h := r.holds(r.some(), "holder", mode, 2*r.tick)
	if mode == driver.Shared {
		other := r.holds(r.some(), "other", mode, 2*r.tick)
		other.leave()
	}
	// Another lock of the lock ID, which is purged too.
	r.lockOf(r.some(), ask{"sibling", "holder", driver.Exclusive, 0, r.ttl(), false})
	h.leave()
	r.pass(2*r.tick + time.Millisecond)
	wait := r.racers(1, modes(driver.Exclusive, driver.Shared), false)
	var purgers sync.WaitGroup
	for _, p := range r.kinds {
		purgers.Go(func() { r.try("purge", p, func(p player) error { return p.purge(r.ctx) }) })
	}
	purgers.Wait()
	wait()
	successor := r.holds(r.some(), "successor", driver.Exclusive, r.ttl())
	r.try("purge", r.some(), func(p player) error { return p.purge(r.ctx) })
	r.refused(successor)
	successor.end()
	r.try("unlock", r.some(), func(p player) error { return p.unlock(r.ctx, "holder") })
}
