package mongodoc

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongodoc"
	"github.com/holdfast-go/holdfast/lab/interop/referee"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rounds = flag.Int("interop.rounds", 300, "how many rounds TestRaces plays")

var kinds = []struct {
	name string
	play func(*round)
}{
	{"race", func(r *round) { r.race() }},
	{"Holdfast's hold expires", newExpires},
	{"an old program's hold expires", oldExpires},
	{"release", releases},
	{"extension", extensions},
	{"forced release", forced},
}

// TestRaces plays rounds of each kind on each layout and fails if one has a fault.
func TestRaces(t *testing.T) {
	thorough.Test(t, "hundreds of rounds on real leases")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	layouts := []string{"TTL", "flag", "value"}
	for n, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, layout)
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			played, grants := 0, make([]int, len(kinds))
			for i := n; i < *rounds && !t.Failed(); i += len(layouts) {
				k := played % len(kinds)
				r := &round{arena: a, Referee: referee.New(0), ctx: t.Context(), rnd: rnd, name: fmt.Sprint("round ", i)}
				if layout == "flag" {
					r.prepare()
				}
				kinds[k].play(r)
				for _, fault := range r.Faults() {
					t.Errorf("round %d, %s: %s", i, kinds[k].name, fault)
				}
				played++
				grants[k] += r.Grants()
			}
			for k := range kinds {
				t.Logf("%6d grants, %s", grants[k], kinds[k].name)
				if played >= len(kinds) && grants[k] == 0 {
					t.Errorf("%s: nothing was granted", kinds[k].name)
				}
			}
			t.Logf("%6d rounds in all", played)
		})
	}
}

// prepare creates the document, without which old programs of that layout get no lock: with an
// old program, or with Holdfast's first hold.
func (r *round) prepare() {
	if r.rnd.IntN(2) == 0 {
		r.check(r.olds[0].program.(*oldmongodoc.Flag).Create(r.ctx, r.name))
	} else {
		r.end(r.mustGet(r.anyNew(), r.timeout))
	}
}

// race lets all players try at the same time, some of them twice, while the TTL index is at
// work. At the end each of them finds the resource free.
func (r *round) race() {
	var running sync.WaitGroup
	for i := range 2 * len(r.players) {
		p, again := r.players[i%len(r.players)], 1+r.rnd.IntN(3)
		running.Go(func() {
			for range again {
				if h := r.ask(p, r.timeout); h != nil {
					runtime.Gosched()
					r.end(h)
				}
			}
		})
	}
	running.Go(func() {
		for range 3 {
			r.monitor()
		}
	})
	running.Wait()
	for _, p := range r.players {
		r.end(r.mustGet(p, r.timeout))
	}
}

// newExpires: Holdfast's hold excludes old programs up to its last millisecond, and they get
// the lock after that. A late release or renewal does not affect a successor.
func newExpires(r *round) {
	holder := r.anyNew()
	ttl := r.timeout/3 + time.Duration(r.rnd.IntN(1000))*time.Millisecond
	h := r.mustGet(holder, ttl)
	rest := r.almost(ttl)
	r.monitor()
	if r.clock.Set() {
		r.refused(r.players...)
	}
	r.Leave(h.who)
	r.pass(rest + time.Millisecond)
	if r.layout == "TTL" && r.rnd.IntN(2) == 0 {
		r.refused(r.players[0]) // until the index has removed the document
	}
	if r.rnd.IntN(2) == 0 {
		r.end(r.mustGet(r.anyNew(), r.timeout))
	}
	r.monitor()
	if r.clock.Set() || r.layout != "TTL" {
		r.race()
		successor := r.mustGet(r.players[r.rnd.IntN(len(r.players))], r.timeout)
		r.lateRequests(holder, h)
		r.refused(r.players...)
		r.end(successor)
	}
}

// lateRequests: a late release or renewal of an ended hold affects no other hold.
func (r *round) lateRequests(holder *newPlayer, h *hold) {
	if found, err := holder.release(r.ctx, h.ref); found || err != nil {
		r.Fault("a late release found something: %v, error %v", found, err)
	}
	if err := holder.renew(r.ctx, h.ref, r.timeout); !errors.Is(err, driver.ErrLost) {
		r.Fault("a late renewal: error %v, want ErrLost", err)
	}
}

// oldExpires: the hold of an old program excludes Holdfast up to its last millisecond, and
// Holdfast gets the lock after that, with and without a sweep.
func oldExpires(r *round) {
	old := r.mustGet(r.anyOld(), 0)
	rest := r.almost(r.timeout)
	if r.clock.Set() {
		r.refused(r.players...)
	}
	r.Leave(old.who)
	r.pass(rest + time.Millisecond) // in two layouts the end is a moment later
	if r.rnd.IntN(2) == 0 {
		_, err := r.anyNew().store.Sweep(r.ctx, driver.SweepRequest{Idle: time.Hour})
		r.check(err)
	}
	h := r.mustGet(r.anyNew(), r.timeout)
	r.monitor()
	r.refused(r.players...)
	r.check(h.extend(r.ctx))
	r.end(h)
	r.race()
}

func releases(r *round) {
	for range 2 {
		h := r.mustGet(r.anyOld(), 0)
		r.refused(r.players...)
		r.end(h)
		n := r.anyNew()
		h = r.mustGet(n, r.timeout)
		r.refused(r.players...)
		r.end(h)
		successor := r.mustGet(r.anyOld(), 0)
		r.lateRequests(n, h)
		r.refused(r.players...)
		r.end(successor)
	}
}

// extensions: other programs respect an extended hold.
func extensions(r *round) {
	for _, p := range []player{r.anyOld(), r.anyNew()} {
		h := r.mustGet(p, r.timeout)
		if r.clock.Set() {
			r.pass(r.timeout * 2 / 3)
		}
		if err := h.extend(r.ctx); errors.Is(err, oldmongodoc.ErrCannot) {
			r.end(h)
			continue
		} else if err != nil {
			r.Fault("extension by %s: %v", p.kind(), err)
		}
		if r.clock.Set() {
			r.pass(r.timeout * 2 / 3)
		}
		r.monitor()
		r.refused(r.players...)
		r.end(h)
	}
	r.race()
}

// forced: a forced release by Holdfast ends an old program's hold.
func forced(r *round) {
	o := r.anyOld()
	h := r.mustGet(o, 0)
	r.refused(r.players...)
	r.Leave(h.who)
	found, err := r.anyNew().release(r.ctx, driver.HoldRef{Resource: r.name, LockID: o.id})
	if r.check(err); !found {
		r.Fault("the old program's hold was not found")
	}
	r.end(r.mustGet(r.players[r.rnd.IntN(len(r.players))], r.timeout))
	r.race()
}
