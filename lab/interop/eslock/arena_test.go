package eslock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/esnode"
	"github.com/holdfast-go/holdfast/lab/interop/referee"
)

// arena is a part of an index. Its rounds are played one after the other, each by players of
// all kinds. All clocks are the machine's.
type arena struct {
	t       *testing.T
	node    esnode.Node
	index   string
	number  int
	kinds   []player
	native  native
	rnd     *rand.Rand
	counter int
}

// newArena returns one of several arenas in the same index.
func newArena(t *testing.T, n esnode.Node, index string, number int, seed uint64) *arena {
	t.Helper()
	store := eslock.New(n, &eslock.Options{Index: index, OldClients: true})
	client := holdfast.New(store, nil)
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	a := &arena{
		t: t, node: n, index: index, number: number, native: native{client},
		rnd: rand.New(rand.NewPCG(seed, uint64(number))),
	}
	a.kinds = []player{old{n, index}, dropIn{n.InIndex(index)}, a.native}
	return a
}

// round is a contest of players for one resource.
type round struct {
	*arena
	*referee.Referee
	ctx      context.Context
	resource string
	ttl      time.Duration // of holds that end in the round, or are kept alive
	racer    atomic.Int64  // number of the last racer
	ended    atomic.Int64  // holds that were released or expired
	kept     atomic.Int64  // holds that outlived their first TTL
}

// play plays a round of a kind and returns it with its faults. In every second round the
// resource is new, so that first inserts race.
func (a *arena) play(ctx context.Context, play func(*round)) *round {
	a.counter++
	r := &round{arena: a, Referee: referee.New(0), ctx: ctx, ttl: short, resource: fmt.Sprint("kept ", a.number)}
	if a.rnd.IntN(2) == 0 {
		r.resource = fmt.Sprintf("new %d.%d", a.number, a.counter)
	}
	play(r)
	if grants, ended := r.Grants(), int(r.ended.Load()); grants != ended {
		r.Fault("%d grants and %d ends", grants, ended)
	}
	r.tidy()
	return r
}

// tidy fails the round unless old and new programs find the resource free: at once, or within a
// few short TTLs, because an old program may go on after its release.
func (r *round) tidy() {
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		left := r.leftover()
		if left == "" {
			return
		}
		if time.Since(began) > 5*r.ttl {
			r.Fault("left behind: %s", left)
			return
		}
	}
}

// leftover describes what still holds the resource, or returns "".
func (r *round) leftover() string {
	for s, err := range r.native.Admin().Holds(r.ctx, holdfast.Filter{Resource: r.resource}) {
		return fmt.Sprintf("%+v, error %v", s, err)
	}
	source, there := r.document()
	if !there {
		return ""
	}
	expires, err := time.Parse(time.RFC3339Nano, fmt.Sprint(source["expires"]))
	if err != nil || expires.After(time.Now()) {
		return fmt.Sprintf("old programs read %v", source)
	}
	return ""
}

// document returns the stored document of the resource.
func (r *round) document() (source map[string]any, there bool) {
	status, reply := r.node.Ask(r.ctx, r.t, http.MethodGet, "/"+r.index+"/_doc/"+url.PathEscape(r.resource), nil)
	if status != http.StatusOK {
		return nil, false
	}
	return reply["_source"].(map[string]any), true
}

func (r *round) some() player { return r.kinds[r.rnd.IntN(len(r.kinds))] }

// someNew returns a player whose release ends only its own hold, whatever the owner has.
func (r *round) someNew() player { return r.kinds[1+r.rnd.IntN(len(r.kinds)-1)] }

// hold is a lock that a player was granted.
type hold struct {
	grip
	r    *round
	kind string // of the player
	who  string // unique
	once sync.Once
}

// lock tries once, and enters if granted. It returns nil if the resource is held.
func (r *round) lock(p player, a ask) *hold {
	a.resource = r.resource
	g, err := p.lock(r.ctx, a)
	if err != nil {
		r.Fault("lock by %s: %v", p.kind(), err)
		return nil
	}
	if g == nil {
		return nil
	}
	h := &hold{grip: g, r: r, kind: p.kind(), who: fmt.Sprintf("%s %s (%d)", p.kind(), a.owner, r.racer.Add(1))}
	r.EnterWhile(h.who, a.mode, g.token(), g.holds)
	return h
}

// holds makes the player hold the resource, which is free or soon will be.
func (r *round) holds(p player, a ask) *hold {
	for began := time.Now(); time.Since(began) < patience; {
		if h := r.lock(p, a); h != nil {
			return h
		}
		<-time.After(10 * time.Millisecond) // leave the node time for other requests
	}
	r.Fault("%s is refused what is free", p.kind())
	return &hold{grip: nothing{}, r: r, kind: p.kind(), who: "nobody"}
}

// nothing is the grip of a player that was refused.
type nothing struct{}

func (nothing) token() uint64                               { return 0 }
func (nothing) holds() bool                                 { return false }
func (nothing) extend(context.Context, time.Duration) error { return nil }
func (nothing) release(context.Context) (bool, error)       { return false, nil }

// patience limits the wait for an event.
const patience = 30 * time.Second

// leave tells the referee that the hold is about to end.
func (h *hold) leave() { h.r.Leave(h.who) }

// end leaves and releases the hold, which must still be there if the player relies on it.
func (h *hold) end() {
	h.leave()
	held := h.grip.holds()
	found, err := h.release(h.r.ctx)
	if err != nil || held && !found {
		h.r.Fault("release by %s: found %v, error %v", h.who, found, err)
	}
	h.over()
}

// over counts the end of the hold once.
func (h *hold) over() { h.once.Do(func() { h.r.ended.Add(1) }) }

// refused checks that nobody else gets the resource.
func (r *round) refused(holder *hold) {
	p := r.some()
	if h := r.lock(p, ask{owner: "intruder", ttl: long}); h != nil {
		if holder.holds() {
			r.Fault("%s took what %s holds", p.kind(), holder.who)
		}
		h.end()
	}
}

const (
	// long is a TTL that does not end within a round.
	long = time.Hour
	// short is a TTL that does.
	short = time.Second
)

// mode returns a mode that the player supports.
func (r *round) mode(p player) driver.Mode {
	if _, is := p.(native); is && r.rnd.IntN(3) == 0 {
		return driver.Shared
	}
	return driver.Exclusive
}
