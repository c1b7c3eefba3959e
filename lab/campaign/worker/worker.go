// Package worker is the worker process of a fault campaign. It takes locks, relies on them,
// writes the data that they protect, and records all of it in a journal of package history.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/register"
)

// Variable is the environment variable with the Config of a worker, in JSON. A test binary that
// finds it must call Main.
const Variable = "HOLDFAST_CAMPAIGN_WORKER"

// Config tells a worker what to do.
type Config struct {
	Process   int
	Store     string // a URL
	Journal   string // path of a new file; "": record nothing
	Samples   string // path of a file for samples; "": measure nothing
	Every     time.Duration
	Registers []register.Address
	Unfenced  bool // registers accept any token
	Seed      uint64
	Tasks     int // number of concurrent tasks
	Resources int
	TTL       time.Duration
	Long      bool          // keep some locks for longer than their TTL
	Crowd     int           // if not 0, only keep that many shared holds of one resource
	Each      time.Duration // if not 0, only take each lock once, within that time
}

// Main works until standard input ends, and returns the exit status.
func Main() int {
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &c); err != nil {
		fmt.Fprintln(os.Stderr, "worker: ", err)
		return 2
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		if err := readSteps(os.Stdin); err != nil { // it also ends with the runner
			fmt.Fprintln(os.Stderr, "worker: ", err)
		}
		stop()
	}()
	if err := run(ctx, c); err != nil {
		fmt.Fprintf(os.Stderr, "worker %d: %v\n", c.Process, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, c Config) (err error) {
	var journal *history.Journal
	if c.Journal != "" {
		if journal, err = history.Create(c.Journal, c.Process); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, journal.Close()) }()
	}
	store, err := open(ctx, c.Store)
	if err != nil || store == nil {
		return err
	}
	registers, err := register.Open(c.Registers)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	if c.Crowd > 0 {
		return errors.Join(crowd(ctx, c, store), register.Close(registers), store.Close())
	}
	beliefs := &beliefs{journal: journal, look: c.TTL / 20, open: make(map[driver.HoldID]*belief)}
	locks := holdfast.New(record(store, journal), &holdfast.Options{
		TTL: c.TTL, Margin: c.TTL / 10, NoSweep: true, Owner: fmt.Sprint("worker ", c.Process),
		Logger: logger(c),
	})
	var tasks, sampling sync.WaitGroup
	if c.Samples != "" {
		sampling.Go(func() { err = errors.Join(err, sample(ctx, c)) })
	}
	if c.Each > 0 {
		err = each(ctx, c, locks)
		c.Tasks = 0
	}
	for i := range c.Tasks {
		t := &task{
			Config: c, shared: store.Traits().Shared, name: fmt.Sprintf("%d.%d", c.Process, i), journal: journal, locks: locks, registers: registers,
			beliefs: beliefs, rnd: rand.New(rand.NewPCG(c.Seed, uint64(c.Process*1000+i))),
		}
		tasks.Go(func() {
			for ctx.Err() == nil {
				t.turn(ctx)
			}
		})
	}
	tasks.Wait()
	sampling.Wait()
	return errors.Join(err, locks.Close(), register.Close(registers), store.Close())
}

// logger returns a slow logger for every other process: logging must not delay locks.
func logger(c Config) *slog.Logger {
	if c.Process%2 == 0 || c.Every > 0 {
		return nil
	}
	return slog.New(slow{c.TTL / 20})
}

// each takes each lock once, after all others have ended.
func each(ctx context.Context, c Config, locks *holdfast.Client) error {
	for i := range c.Resources {
		limited, cancel := context.WithTimeout(ctx, c.Each)
		h, err := locks.Lock(limited, fmt.Sprint("r", i), nil)
		cancel()
		if err != nil {
			return fmt.Errorf("a process that has ended still holds it: %w", err)
		}
		if err := h.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open is driver.Open, repeated while the store is unreachable. It returns nil if ctx ends
// before.
func open(ctx context.Context, url string) (driver.Store, error) {
	store, err := driver.Open(ctx, url)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, nil //nolint:nilerr // it is no longer needed
	case err != nil:
		return nil, err
	}
	init, ok := store.(driver.Initializer)
	if !ok {
		return store, nil
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := init.Init(attempt)
		cancel()
		switch {
		case err == nil:
			return store, nil
		case errors.Is(err, driver.ErrUnusable):
			return nil, errors.Join(err, store.Close())
		case ctx.Err() != nil:
			return nil, store.Close()
		}
	}
}
