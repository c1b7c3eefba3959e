package measure

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Bench measures a store: for half of the time the load of Clients that lock and unlock as
// fast as the store lets them, then HandOvers.
type Bench struct {
	// Open makes each Client.
	Open Open
	// For is how long it takes.
	For time.Duration
	// Clients is how many Clients the load has.
	Clients int
	// Contend makes them lock the same resource instead of one each.
	Contend bool
}

// BenchResult is what a Bench measured. Scripts read it as JSON: a field may be added, none
// changed.
type BenchResult struct {
	Store     string  `json:"store"`
	Clients   int     `json:"clients"`
	Contend   bool    `json:"contend"`
	PerSecond float64 `json:"perSecond"` // pairs
	// Acquire, Release and Pair, which is both, have a sample for each lock of the load.
	Pair     *Samples `json:"acquireAndRelease"`
	Acquire  *Samples `json:"acquire"`
	Release  *Samples `json:"release"`
	HandOver *Samples `json:"handOver"`
}

// Run measures until the time is over, ctx ends or a Client fails. The result has the name of
// the store.
func (b Bench) Run(ctx context.Context, store string) (r BenchResult, err error) {
	prefix := fmt.Sprintf("holdfast bench %s ", driver.NewHoldID())
	if r, err = b.load(ctx, b.For/2, prefix); err != nil {
		return r, err
	}
	r.Store = store
	r.HandOver, err = HandOvers(ctx, b.Open, prefix+"0", func(_ int, spent time.Duration) bool {
		return spent < b.For-b.For/2
	})
	return r, err
}

// Rows returns the rows of a table, the titles first.
func (r BenchResult) Rows() [][]string {
	rows := [][]string{{"WHAT", "COUNT", "PER SECOND", "P50", "P90", "P99", "MAX"}}
	row := func(what, perSecond string, samples *Samples) {
		cells := []string{what, strconv.Itoa(samples.Count()), perSecond}
		for _, part := range []float64{0.5, 0.9, 0.99, 1} {
			cells = append(cells, Round(samples.Quantile(part)).String())
		}
		rows = append(rows, cells)
	}
	row("acquire and release", strconv.FormatFloat(r.PerSecond, 'f', 0, 64), r.Pair)
	row("acquire", "", r.Acquire)
	row("release", "", r.Release)
	row("hand-over", "", r.HandOver)
	return rows
}

// load puts the load on the store until the time is over, ctx ends or a Client fails, which
// ends it for all. The names of the resources begin with the prefix. When it returns nothing
// is held, unless the store does not answer.
func (b Bench) load(ctx context.Context, lasts time.Duration, prefix string) (BenchResult, error) {
	r := BenchResult{Clients: b.Clients, Contend: b.Contend, Acquire: new(Samples), Release: new(Samples), Pair: new(Samples)}
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
	if took := time.Since(began).Seconds(); took > 0 {
		r.PerSecond = math.Round(float64(r.Pair.Count())/took*10) / 10
	}
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
