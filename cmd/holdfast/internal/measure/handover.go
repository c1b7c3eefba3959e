package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Open makes a Client with those options, on a connection of its own.
type Open func(ctx context.Context, opts *holdfast.Options) (*holdfast.Client, error)

// HandOvers lets two Clients pass one resource to and fro, at least once and as long
// as more returns true; more gets the number of hand-overs and the time spent so far.
// It records how long each hand-over takes, from before the release to the grant to
// the waiter. The Clients share nothing but the store.
//
// When it returns nothing is held, unless the store does not answer.
func HandOvers(ctx context.Context, open Open, resource string, more func(n int, spent time.Duration) bool) (*Samples, error) {
	var peers [2]*peer
	for i := range peers {
		var err error
		if peers[i], err = newPeer(ctx, open); err != nil {
			return nil, err
		}
		defer peers[i].client.Close()
	}
	hold, err := peers[0].client.Lock(ctx, resource, nil)
	if err != nil {
		return nil, err
	}
	took := new(Samples)
	for began := time.Now(); took.Count() == 0 || more(took.Count(), time.Since(began)); {
		var d time.Duration
		if d, hold, err = handOver(ctx, hold, peers[(took.Count()+1)%2]); err != nil {
			if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the Client tells the cause in its text alone
				err = cause
			}
			return took, err
		}
		took.Add(d)
	}
	return took, hold.Unlock(ctx)
}

// peer is one of two Clients.
type peer struct {
	client *holdfast.Client
	// waits gets a value when the peer waits for the store to wake it.
	waits            chan struct{}
	refusals, enough int // that many refusals of a lock mean that it waits
}

func newPeer(ctx context.Context, open Open) (*peer, error) {
	p := &peer{waits: make(chan struct{}, 1), enough: 1}
	var err error
	p.client, err = open(ctx, &holdfast.Options{NoSweep: true, Trace: &holdfast.Trace{AttemptEnd: p.attempted}})
	if err == nil && p.client.Traits().Notifies {
		p.enough = 2 // the second comes when the subscription is effective
	}
	return p, err
}

func (p *peer) attempted(_ context.Context, a holdfast.AttemptInfo) {
	if !errors.Is(a.Err, holdfast.ErrHeld) {
		return
	}
	if p.refusals++; p.refusals == p.enough {
		p.waits <- struct{}{}
	}
}

var errEarly = fmt.Errorf("%w: it grants a lock before that is released", holdfast.ErrUnusable)

// handOver returns how long the hand-over took, and the waiter's hold.
func handOver(ctx context.Context, hold *holdfast.Hold, to *peer) (time.Duration, *holdfast.Hold, error) {
	type answer struct {
		hold *holdfast.Hold
		at   time.Time
		err  error
	}
	to.refusals = 0
	answers := make(chan answer, 1) // the Client's Close ends the Lock, if nothing else does
	go func() {
		h, err := to.client.Lock(ctx, hold.Resource(), nil)
		answers <- answer{h, time.Now(), err}
	}()
	select {
	case <-to.waits:
	case a := <-answers:
		if a.err != nil {
			return 0, nil, a.err
		}
		// Or the hold was lost, while this process stood still.
		return 0, nil, fmt.Errorf("hand over %q: %w", hold.Resource(), cmp.Or(hold.Unlock(ctx), errEarly))
	}
	released := time.Now()
	if err := hold.Unlock(ctx); err != nil {
		return 0, nil, err
	}
	a := <-answers
	return a.at.Sub(released), a.hold, a.err
}
