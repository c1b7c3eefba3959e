package measure

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Load is a number of Clients that lock and unlock as fast as the store lets them.
type Load struct {
	// Open makes each Client.
	Open Open
	// Resources has one name for each Client. Clients with the same one contend.
	Resources []string
	// For is how long it lasts.
	For time.Duration
}

// LoadResult is what a Load did.
type LoadResult struct {
	// Took is how long it took.
	Took time.Duration
	// Acquire, Release and Pair, which is both, have a sample for each lock.
	Acquire, Release, Pair *Samples
}

// PerSecond returns how many locks were acquired and released in a second.
func (r LoadResult) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Pair.Count()) / r.Took.Seconds()
}

// Run puts the load on the store until the time is over, ctx ends or a Client fails,
// which ends it for all. When it returns nothing is held, unless the store does not
// answer.
func (l Load) Run(ctx context.Context) (LoadResult, error) {
	r := LoadResult{Acquire: NewSamples(), Release: NewSamples(), Pair: NewSamples()}
	var clients []*holdfast.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close() // all locks were released, or that has failed already
		}
	}()
	for range l.Resources {
		c, err := l.Open(ctx, &holdfast.Options{NoSweep: true})
		if err != nil {
			return r, err
		}
		clients = append(clients, c)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	began := time.Now()
	for i, c := range clients {
		all.Go(func() {
			if err := l.work(ctx, c, l.Resources[i], r); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	r.Took = time.Since(began)
	return r, context.Cause(ctx)
}

// work is what one Client does.
func (l Load) work(ctx context.Context, c *holdfast.Client, resource string, r LoadResult) error {
	// When the time is over, a Client that waits for the others gives up. Only a wait
	// is cut off: a request under way would need a clean-up.
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if l.shared(resource) {
		defer time.AfterFunc(l.For, giveUp).Stop()
	}
	for began := time.Now(); time.Since(began) < l.For; {
		asked := time.Now()
		hold, err := c.Lock(waiting, resource, nil)
		if err != nil {
			if waiting.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		}
		acquired := time.Now()
		if err := hold.Unlock(ctx); err != nil {
			return err
		}
		released := time.Now()
		r.Acquire.Add(acquired.Sub(asked))
		r.Release.Add(released.Sub(acquired))
		r.Pair.Add(released.Sub(asked))
	}
	return nil
}

// shared reports whether more than one Client locks the resource.
func (l Load) shared(resource string) bool {
	n := 0
	for _, other := range l.Resources {
		if other == resource {
			n++
		}
	}
	return n > 1
}
