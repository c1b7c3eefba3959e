package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// arena is a collection. Its rounds are played one after the other, each by players of all
// kinds. The clocks of old programs are correct.
type arena struct {
	coll    *mongo.Collection
	clock   *engines.MongoClock
	kinds   []player
	tick    time.Duration // the unit of TTLs
	rnd     *rand.Rand
	counter int
}

func newArena(t *testing.T, seed uint64) *arena {
	coll := engines.MongoDatabase(t).Collection("locks")
	a := &arena{coll: coll, clock: engines.NewMongoClock(t, coll.Database()), tick: time.Second, rnd: rand.New(rand.NewPCG(seed, 1))}
	if a.clock.Set() {
		a.tick = time.Minute // long enough for deadlines of a Client, which use the machine's clock
	}
	store := mongolock.New(coll, nil)
	client := holdfast.New(store, nil)
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	dropIn := dropIn{lock.NewClient(coll)}
	if err := dropIn.CreateIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.kinds = []player{newOld(a), dropIn, native{client}}
	return a
}

// round is a contest of players for one resource.
type round struct {
	*arena
	*judge
	ctx      context.Context
	resource string
	changed  chan struct{} // tells the watcher to look
	racer    int           // number of the last racer
	held     atomic.Int64  // number of holds so far
}

// play plays a round of a kind while a watcher reads the document, and returns the faults. In
// every second round the resource is new, so that first inserts race.
func (a *arena) play(ctx context.Context, k kind) (grants int, faults []string) {
	a.counter++
	r := &round{arena: a, judge: newJudge(), ctx: ctx, resource: "kept", changed: make(chan struct{}, 1)}
	if a.rnd.IntN(2) == 0 {
		r.resource = fmt.Sprint("new ", a.counter)
	}
	if k.limit {
		r.Limit = 1 + a.rnd.IntN(3)
	}
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for range r.changed {
			r.look()
		}
	})
	k.play(r)
	close(r.changed)
	watcher.Wait()
	r.tidy()
	return r.Grants(), r.Faults()
}

// look checks the document and reports whether it has a lock.
func (r *round) look() (locked bool) {
	raw, err := r.coll.FindOne(r.ctx, bson.M{"resource": r.resource}).Raw()
	switch {
	case err == nil:
		return r.document(raw)
	case !errors.Is(err, mongo.ErrNoDocuments):
		r.Fault("%v", err)
	}
	return false
}

// tell makes the watcher look while the players continue.
func (r *round) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// tidy unlocks what is left, at most expired locks, and from time to time deletes the documents
// that no other round uses.
func (r *round) tidy() {
	if r.look() {
		for s, err := range r.kinds[2].(native).Admin().Holds(r.ctx, holdfast.Filter{Resource: r.resource, Expired: true}) {
			if err != nil || s.Left > 0 {
				r.Fault("left behind: %+v, error %v", s, err)
				break
			}
			r.try("unlock", r.some(), func(p player) error { return p.unlock(r.ctx, s.LockID) })
		}
		if r.look() {
			r.Fault("all is unlocked, and yet there is a lock")
		}
	}
	if r.counter%16 != 0 {
		return
	}
	if _, err := r.coll.DeleteMany(r.ctx, bson.M{"resource": bson.M{"$ne": "kept"}}); err != nil {
		r.Fault("%v", err)
	}
}

func (r *round) some() player { return r.kinds[r.rnd.IntN(len(r.kinds))] }

func (r *round) try(what string, p player, do func(player) error) {
	if err := do(p); err != nil {
		r.Fault("%s by %s: %v", what, p.kind(), err)
	}
}

func (r *round) pass(d time.Duration) {
	if err := r.clock.Pass(r.ctx, d); err != nil {
		r.Fault("clock: %v", err)
	}
}

// hold is a lock that a player was granted.
type hold struct {
	r      *round
	who    string // unique
	unlock func() error
}

// lock tries once, and enters if granted. It returns nil if the resource is held.
func (r *round) lock(p player, lockID string, mode driver.Mode, ttl time.Duration) *hold {
	return r.lockOf(p, ask{r.resource, lockID, mode, 0, ttl, false})
}

func (r *round) lockOf(p player, a ask) *hold {
	if a.mode == driver.Shared {
		a.limit = r.Limit
	}
	unlock, token, err := p.lock(r.ctx, a)
	if err != nil {
		r.Fault("lock by %s: %v", p.kind(), err)
		return nil
	}
	if unlock == nil {
		return nil
	}
	h := &hold{r: r, who: fmt.Sprintf("%s %s (%d)", p.kind(), a.lockID, r.held.Add(1)), unlock: unlock}
	if a.resource == r.resource {
		r.Enter(h.who, a.mode, token)
		r.tell()
	}
	return h
}

// end leaves and unlocks. A second end does not affect other holds.
func (h *hold) end() {
	h.leave()
	var err error
	for range 3 { // the machine may be suspended for longer than the Client retries
		if err = h.unlock(); err == nil || errors.Is(err, holdfast.ErrLost) {
			return
		}
	}
	h.r.Fault("unlock by %s: %v", h.who, err)
}

func (h *hold) leave() { h.r.Leave(h.who) }
