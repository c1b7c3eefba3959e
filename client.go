package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// The terms that the client shares with its stores; see package driver.
type (
	// Mode is how a hold excludes others: Exclusive or Shared.
	Mode = driver.Mode
	// HoldID names one acquisition and no other.
	HoldID = driver.HoldID
	// Status is a hold as the store sees it.
	Status = driver.Status
	// Filter chooses holds; its zero value chooses all.
	Filter = driver.Filter
	// Traits are what a store promises.
	Traits = driver.Traits
	// SweepResult counts what a Sweep removed.
	SweepResult = driver.SweepResult
	// HeldError says who is in the way. It is ErrHeld.
	HeldError = driver.HeldError
)

// The modes.
const (
	Exclusive = driver.Exclusive
	Shared    = driver.Shared
)

// Forever is the TTL of a hold without an end; MaxTTL the longest finite one.
const (
	Forever = driver.Forever
	MaxTTL  = driver.MaxTTL
)

// LimitUnknown is Status.Limit of a shared hold whose limit the store did not keep.
const LimitUnknown = driver.LimitUnknown

// ParseHoldID reads the 24 hex digits of a HoldID.
func ParseHoldID(s string) (HoldID, error) { return driver.ParseHoldID(s) }

// Client takes locks in one store, waits for them, keeps them alive and says
// when one is lost. All methods may be called concurrently.
type Client struct {
	config
	store     driver.Store
	owned     bool // Close closes the store
	initDone  atomic.Bool
	life      context.Context // ends with Close
	endLife   context.CancelFunc
	work      sync.WaitGroup // whatever uses the store; grows only while not closed
	closeDone chan struct{}
	created   time.Time
	notifier  notifier

	hungWatches atomic.Int32 // calls of Watch that go on though nobody waits for them

	// mu guards what follows, all fields of Hold below its own mark, and is
	// never held across I/O or a call of the user's code.
	mu      sync.Mutex
	closed  bool
	initRun *initRun         // under way, or nil
	holds   map[HoldID]*Hold // the live ones
	queues  map[string]queue // by resource
	cleaner cleaner
	revoked map[HoldID]revoked // by ReleaseID and ForceRelease, a while ago
	timer   *time.Timer
	timerAt time.Duration // when it fires; 0: it is not set
	sweeper *time.Timer   // made with the first grant, if the Client sweeps
	batch   int           // how many holds are renewed in one request
	shrunk  bool          // batch, since the last tick
	cleanBy time.Duration // when clean-ups end, by elapsed, once the Client is closed
}

// New returns a Client of the store. Nothing is sent yet; what the store must
// prepare or check is done before the first operation. Close does not close the
// store: it may serve other clients.
func New(store driver.Store, opts *Options) *Client {
	c := &Client{
		config:    newConfig(opts),
		store:     store,
		closeDone: make(chan struct{}),
		created:   time.Now(),
		queues:    make(map[string]queue),
		holds:     make(map[HoldID]*Hold),
		cleaner:   newCleaner(),
		revoked:   make(map[HoldID]revoked),
		batch:     batchSize,
	}
	c.notifier.overflow = c.sayLeftOut
	c.life, c.endLife = context.WithCancel(context.Background())
	return c
}

// Open returns a Client of the store that the URL names, prepared and checked.
// The URL's scheme is known if the store's package is imported. Close closes the
// store as well. Options that no lock could be taken with, or that no sweep would
// go by, are ErrInvalid here, before anything is sent.
func Open(ctx context.Context, storeURL string, opts *Options) (*Client, error) {
	if cfg := newConfig(opts); cfg.invalid != nil {
		return nil, wrap("open store", "", cfg.invalid)
	}
	store, err := driver.Open(ctx, storeURL)
	if err != nil {
		return nil, wrap("open store", "", err)
	}
	c := New(store, opts)
	c.owned = true
	if err := c.ready(ctx); err != nil {
		_ = c.Close() // nothing is held; what matters is why Init failed
		return nil, wrap("open store", "", err)
	}
	return c, nil
}

// initRun is one run of the store's Init, for all who wait for it.
type initRun struct {
	done chan struct{}
	err  error
}

// initTimeout is how long an Init may take. What a store does in it may be
// repeated, so that one that was cut off goes on with the next.
const initTimeout = 10 * time.Second

var errNotReady = fmt.Errorf("the store was not ready within %v", initTimeout)

// ready waits until the store's Init has succeeded once. A run that fails is the
// answer to all who waited for it; the next operation begins another, for the
// reason may have been mended.
func (c *Client) ready(ctx context.Context) error {
	if c.initDone.Load() {
		return nil
	}
	store, ok := c.store.(driver.Initializer)
	if !ok {
		c.initDone.Store(true)
		return nil
	}
	c.mu.Lock()
	if c.initDone.Load() { // since the first look
		c.mu.Unlock()
		return nil
	}
	run := c.initRun
	if run == nil {
		run = &initRun{done: make(chan struct{})}
		c.initRun = run
		c.work.Add(1) // the caller is an operation that Close waits for
		// Whoever began it may leave; the others still wait.
		go c.runInit(context.WithoutCancel(ctx), store, run)
	}
	c.mu.Unlock()
	timer := time.NewTimer(initTimeout + lastChance)
	defer timer.Stop()
	select {
	case <-run.done:
		return run.err
	case <-timer.C: // its Init does not heed its ctx
		return errNotReady
	case <-ctx.Done():
		return ctxError(ctx)
	case <-c.life.Done():
		return ErrClosed
	}
}

// runInit runs Init once.
func (c *Client) runInit(ctx context.Context, store driver.Initializer, run *initRun) {
	defer c.work.Done()
	ctx, cancel := c.untilClose(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, initTimeout)
	defer stop()
	err := store.Init(ctx)
	switch {
	case err == nil:
		c.initDone.Store(true)
		// Some stores know only now whether they can wake who waits.
		t := c.store.Traits()
		c.log(ctx, slog.LevelDebug, "holdfast: store is ready", "store", t.Name, "wakesWaiters", t.Notifies)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !answered(err):
		err = fmt.Errorf("%w: %w", errNotReady, err)
	}
	if err != nil {
		run.err = c.whyEnded(err)
	}
	c.mu.Lock()
	c.initRun = nil
	c.mu.Unlock()
	close(run.done)
}

// untilClose returns ctx made to end also with the Client, for calls of the store
// that are no attempts about one hold: they may take as long as ctx allows.
func (c *Client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// whyEnded returns the error of a call of the store, or ErrClosed if Close may
// have cut it off.
func (c *Client) whyEnded(err error) error {
	if c.life.Err() != nil && !answered(err) {
		return ErrClosed
	}
	return err
}

// elapsed is for how long something takes: time.Since reads one clock of the
// machine, time.Now two.
func (c *Client) elapsed() time.Duration { return time.Since(c.created) }

// begin registers an operation that uses the store, so that Close waits for it.
// Unless it fails, c.work.Done ends it.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.work.Add(1)
	return nil
}

// start is begin, and makes sure that the ctx is alive and the store ready.
func (c *Client) start(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxError(ctx)
	}
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.ready(ctx); err != nil {
		c.work.Done()
		return err
	}
	return nil
}

// Traits returns what the store promises.
func (c *Client) Traits() Traits { return c.store.Traits() }

// closePatience is how long Close takes at most, and doPatience how much of that
// the functions get that Do runs.
const (
	closePatience = 5 * time.Second
	doPatience    = 3 * time.Second
)

// Close ends the Client: waits end with ErrClosed, the contexts of holds are
// cancelled with it, and what is held is released (or left, by option): what Do
// runs is waited for first, for 3 s. Close takes at most 5 s. Its error says what
// could not be released, which ends by itself, or that something goes on: a
// function that Do runs, a loop over Holds, a call of the store; the store that
// Open made is then closed when that has ended. So none of these should call it.
// Closing again does nothing.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.closeDone
		return nil
	}
	c.closed = true
	began := c.elapsed()
	var held, running []*Hold
	for _, h := range c.holds {
		c.endHold(h, ErrClosed)
		if h.inDo {
			running = append(running, h)
		} else {
			held = append(held, h)
		}
	}
	c.work.Add(1) // until all is there that is to be cleaned up
	c.cleanBy = began + cleanClosing
	c.cleanLast()
	for _, timer := range []*time.Timer{c.timer, c.sweeper} {
		if timer != nil {
			timer.Stop()
		}
	}
	c.mu.Unlock()
	defer close(c.closeDone)
	c.endLife()

	left := func(of time.Duration) time.Duration { return max(of-(c.elapsed()-began), 0) }
	ended, closed := make(chan struct{}), make(chan struct{})
	var err, closeErr error
	go func() {
		c.work.Wait()
		close(ended)
		if c.owned {
			closeErr = c.store.Close()
		}
		close(closed)
	}()
	if !c.opts.LeaveHolds {
		err = c.releaseHeld(held, left(closePatience))
		c.mu.Lock()
		for _, h := range held {
			c.cleanStrays(h, 0)
		}
		c.mu.Unlock()
	}
	c.work.Done()
	if !c.opts.LeaveHolds {
		within(ended, left(doPatience))
		err = cmp.Or(err, c.releaseHeld(c.unreleased(running), left(closePatience)))
	}
	if within(closed, left(closePatience)) {
		err = cmp.Or(err, closeErr)
	} else {
		err = cmp.Or(err, errStillRunning)
	}
	within(c.notifier.pending(), left(closePatience))
	return err
}

var errStillRunning = fmt.Errorf("holdfast: close: something goes on after %v: a function that Do runs, a loop over Holds or a call of the store", closePatience)

// within waits for the channel, if there is one, to close and reports whether it
// did in time.
func within(done <-chan struct{}, d time.Duration) bool {
	if done == nil {
		return true
	}
	if d <= 0 { // a timer that is over at once would be chosen as often as done
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// unreleased returns those of the holds that the store may have yet.
func (c *Client) unreleased(hs []*Hold) []*Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(hs, func(h *Hold) bool { return h.state != released })
}
