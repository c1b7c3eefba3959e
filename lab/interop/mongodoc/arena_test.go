package mongodoc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongodoc"
	"github.com/holdfast-go/holdfast/lab/interop/referee"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// arena is a collection with two old programs and two of Holdfast's stores as players.
type arena struct {
	layout  string
	coll    *mongo.Collection
	clock   *engines.MongoClock
	timeout time.Duration
	players []player
	olds    []*oldPlayer
	news    []*newPlayer
}

func newArena(t *testing.T, layout string) *arena {
	coll := engines.MongoDatabase(t).Collection("locks")
	a := &arena{layout: layout, coll: coll, clock: engines.NewMongoClock(t, coll.Database()), timeout: 30 * time.Second}
	if !a.clock.Set() {
		a.timeout = time.Second
	}
	if layout == "TTL" {
		_, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
			Keys: map[string]int{"lockedAt": 1}, Options: options.Index().SetExpireAfterSeconds(int32(a.timeout / time.Second)),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		o := &oldPlayer{program: a.program(i), id: mongodoc.OldLockID}
		if layout == "value" {
			o.id = fmt.Sprint("value ", i)
		}
		n := &newPlayer{store: a.store(), id: fmt.Sprint("client ", i)}
		if err := n.store.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.olds, a.news = append(a.olds, o), append(a.news, n)
		a.players = append(a.players, o, n)
	}
	return a
}

func (a *arena) program(i int) oldmongodoc.Program {
	switch a.layout {
	case "TTL":
		return &oldmongodoc.Insert{Coll: a.coll, Now: a.clock.Now}
	case "flag":
		return &oldmongodoc.Flag{Coll: a.coll, Now: a.clock.Now, Timeout: a.timeout}
	}
	return &oldmongodoc.Value{Coll: a.coll, Value: fmt.Sprint("value ", i), Seconds: int(a.timeout / time.Second)}
}

func (a *arena) store() *mongodoc.Store {
	switch a.layout {
	case "TTL":
		return mongodoc.NewTTL(a.coll, nil)
	case "flag":
		return mongodoc.NewFlag(a.coll, &mongodoc.FlagOptions{Timeout: a.timeout})
	}
	return mongodoc.NewValue(a.coll)
}

// player tries once to get a lock. nil is a refusal.
type player interface {
	kind() string
	lock(ctx context.Context, name string, ttl time.Duration) (*hold, error)
}

// hold is a lock that a player was granted.
type hold struct {
	who    string         // unique; set by ask
	ref    driver.HoldRef // of Holdfast's hold
	unlock func(context.Context) error
	extend func(context.Context) error
}

// oldPlayer is an old program. Its holds last for the arena's timeout.
type oldPlayer struct {
	program oldmongodoc.Program
	id      string // the lock ID of its holds in Holdfast
}

func (o *oldPlayer) kind() string { return "an old program" }

func (o *oldPlayer) lock(ctx context.Context, name string, _ time.Duration) (*hold, error) {
	granted, err := o.program.Lock(ctx, name)
	if err != nil || !granted {
		return nil, err
	}
	return &hold{
		unlock: func(ctx context.Context) error { return o.program.Unlock(ctx, name) },
		extend: func(ctx context.Context) error { return o.program.Extend(ctx, name) },
	}, nil
}

// newPlayer is a client of Holdfast.
type newPlayer struct {
	store *mongodoc.Store
	id    string
}

func (n *newPlayer) kind() string { return "Holdfast" }

func (n *newPlayer) lock(ctx context.Context, name string, ttl time.Duration) (*hold, error) {
	q := driver.AcquireRequest{
		Resource: name, LockID: n.id, HoldID: driver.NewHoldID(), TTL: ttl,
		Details: driver.Details{Owner: "$value", Comment: "$$NOW"},
	}
	g, err := n.store.Acquire(ctx, q)
	if errors.Is(err, driver.ErrHeld) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &hold{ref: driver.HoldRef{Resource: name, LockID: n.id, HoldID: q.HoldID, Token: g.Token}}
	h.unlock = func(ctx context.Context) error {
		found, err := n.release(ctx, h.ref)
		if err == nil && !found {
			err = fmt.Errorf("the hold of %q by %q was not there", name, n.id)
		}
		return err
	}
	h.extend = func(ctx context.Context) error { return n.renew(ctx, h.ref, ttl) }
	return h, nil
}

func (n *newPlayer) release(ctx context.Context, ref driver.HoldRef) (found bool, err error) {
	rs, err := n.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
	if err != nil {
		return false, err
	}
	return rs[0].Found, rs[0].Err
}

func (n *newPlayer) renew(ctx context.Context, ref driver.HoldRef, ttl time.Duration) error {
	rs, err := n.store.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
	if err != nil {
		return err
	}
	return rs[0].Err
}

// round is a contest for one resource.
type round struct {
	*arena
	*referee.Referee
	ctx  context.Context
	rnd  *rand.Rand
	name string
	held atomic.Int64 // number of holds so far
}

func (r *round) check(err error) {
	if err != nil {
		r.Fault("%v", err)
	}
}

// ask tries once, and tells the referee if it is granted.
func (r *round) ask(p player, ttl time.Duration) *hold {
	h, err := p.lock(r.ctx, r.name, ttl)
	r.check(err)
	if h == nil {
		return nil
	}
	h.who = fmt.Sprintf("%s (%d)", p.kind(), r.held.Add(1))
	r.Enter(h.who, driver.Exclusive, 0)
	return h
}

// mustGet is ask for an attempt that must be granted.
func (r *round) mustGet(p player, ttl time.Duration) *hold {
	h := r.ask(p, ttl)
	if h == nil {
		r.Fault("%s was refused what is free", p.kind())
		nothing := func(context.Context) error { return nil }
		return &hold{unlock: nothing, extend: nothing}
	}
	return h
}

func (r *round) end(h *hold) {
	r.Leave(h.who)
	r.check(h.unlock(r.ctx))
}

// refused checks that none of the players gets the held resource.
func (r *round) refused(players ...player) {
	for _, p := range players {
		if r.ask(p, r.timeout) != nil {
			r.Fault("%s was granted what is held", p.kind())
		}
	}
}

func (r *round) pass(d time.Duration) { r.check(r.clock.Pass(r.ctx, d)) }

// almost lets time pass until just before the end of a hold, if the clock can be set. It
// returns the remaining time.
func (r *round) almost(d time.Duration) time.Duration {
	if !r.clock.Set() {
		return d
	}
	r.pass(d - time.Millisecond)
	return time.Millisecond
}

func (r *round) anyOld() *oldPlayer { return r.olds[r.rnd.IntN(len(r.olds))] }
func (r *round) anyNew() *newPlayer { return r.news[r.rnd.IntN(len(r.news))] }

// monitor does once what a server does regularly for its TTL index.
func (r *round) monitor() {
	if r.layout == "TTL" && r.clock.Set() {
		r.check(oldmongodoc.Monitor(r.ctx, r.coll, r.clock.Now(), r.timeout))
	}
}
