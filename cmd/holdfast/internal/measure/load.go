package measure

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// PerSecond returns how many locks were acquired and released in a second.
func (r BenchResult) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Pair.Count()) / r.Took.Seconds()
}

// load puts the load on the store until the time is over, ctx ends or a Client fails, which
// ends it for all. The names of the resources begin with the prefix. When it returns nothing
// is held, unless the store does not answer.
func (b Bench) load(ctx context.Context, lasts time.Duration, prefix string) (BenchResult, error) {
	r := BenchResult{Acquire: NewSamples(), Release: NewSamples(), Pair: NewSamples()}
	var clients []*holdfast.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close() // all locks were released, or that has failed already
		}
	}()
	for range b.Clients {
		c, err := b.Open(ctx, &holdfast.Options{NoSweep: true})
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
		if b.Contend {
			i = 0
		}
		all.Go(func() {
			if err := b.work(ctx, c, lasts, prefix+strconv.Itoa(i+1), r); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	r.Took = time.Since(began)
	return r, context.Cause(ctx)
}

// work is what one Client does.
func (b Bench) work(ctx context.Context, c *holdfast.Client, lasts time.Duration, resource string, r BenchResult) error {
	// When the time is over, a Client that waits for the others gives up. Only a wait
	// is cut off: a request under way would need a clean-up.
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if b.Contend {
		defer time.AfterFunc(lasts, giveUp).Stop()
	}
	for began := time.Now(); time.Since(began) < lasts; {
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
