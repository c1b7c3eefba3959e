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
	"github.com/holdfast-go/holdfast/internal/calls"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// The terms that the client shares with its stores; see package driver.
type (
	// Mode is how a hold excludes others: Exclusive or Shared.
	Mode = driver.Mode
	// HoldID names one acquisition.
	HoldID = driver.HoldID
	// Status is a hold as the store sees it. Its methods Age and RenewedAgo
	// measure by the store's clock, as those of Place do.
	Status = driver.Status
	// Filter chooses holds, or waiters; its zero value chooses all.
	Filter = driver.Filter
	// Traits are what a store promises.
	Traits = driver.Traits
	// HeldError describes the holds, and the waiters, that are in the way. It is ErrHeld.
	// Its Position is how many waiters are served before the acquirer: 0 if it is next, where
	// the command says 1, and -1 if it has no place in the store's queue. Waiters is how
	// many wait in all, and Ahead names the first four of those before it: a resource can be
	// free and refused.
	HeldError = driver.HeldError
	// Place is a waiter in the store's queue of a resource. Since is when it came, Asked
	// when it last asked for the place, and Left how long that is kept unless it asks again.
	Place = driver.Place
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

// Client acquires locks in one store, waits for them, renews them and reports when
// one is lost. All methods may be called concurrently.
type Client struct {
	config
	store     driver.Store
	owned     bool // Close closes the store
	initDone  atomic.Bool
	life      context.Context // ends with Close
	endLife   context.CancelFunc
	renewing  context.Context // ends when nothing is to be renewed any more: after life, if Do runs functions
	endRenew  context.CancelFunc
	work      sync.WaitGroup // all that uses the store; once closed, only work adds to it
	running   sync.WaitGroup // functions that Do runs
	closeDone chan struct{}
	created   time.Time
	notifier  calls.Queue // of the Logger and the Trace; may be called with mu held

	hungWatches atomic.Int32 // calls of Watch that go on and that nobody waits for

	// mu guards what follows, and the fields of Hold that say so. It is never held
	// across I/O or a call of the user's code.
	mu        sync.Mutex
	closed    bool
	initRun   *initRun          // the one under way, or nil
	holds     map[HoldID]*Hold  // the live ones
	named     map[lockKey]*Hold // those of them whose lock ID the caller chose
	holdsDue  time.Duration     // when the first of them is due, or earlier
	queues    map[string]queue  // of acquirers, by resource
	cleaner   cleaner
	revoked   map[HoldID]revoked // by ReleaseID and ForceRelease, not long ago
	timer     *time.Timer
	timerAt   time.Duration // when it fires; 0: it is not set
	sweeper   *time.Timer   // made with the first grant, if the Client sweeps
	batch     int           // how many holds are renewed in one request
	failing   bool          // at the last look, a hold was not renewed yet after a failure
	lossWatch bool          // watchLoss runs, or is useless
	doubtedAt time.Duration // when the store may last have lost holds: earlier answers do not count
	cleanBy   time.Duration // when clean-ups end, by elapsed, once the Client is closed

	acquireTook atomic.Int64 // how long the last acquire that was answered took; not guarded
}

// New returns a Client of the store. It sends nothing: the first operation makes the
// store prepare and check what it needs. Close does not close the store, which may
// serve other clients.
func New(store driver.Store, opts *Options) *Client {
	c := &Client{
		config:    newConfig(opts),
		store:     store,
		closeDone: make(chan struct{}),
		created:   time.Now(),
		queues:    make(map[string]queue),
		holds:     make(map[HoldID]*Hold),
		named:     make(map[lockKey]*Hold),
		holdsDue:  never,
		doubtedAt: -never, // clocks may begin below 0
		cleaner:   newCleaner(),
		revoked:   make(map[HoldID]revoked),
		batch:     batchSize,
	}
	c.notifier.Most, c.notifier.Overflow = maxUntold, c.sayLeftOut
	c.life, c.endLife = context.WithCancel(context.Background())
	c.renewing, c.endRenew = context.WithCancel(context.Background())
	if c.trace.ClientStart != nil {
		c.trace.ClientStart(c)
	}
	return c
}

// Open returns a Client of the store that the URL names, after the store has prepared
// and checked what it needs. Importing a store's package registers its URL schemes.
// Close closes the store as well. Open fails with ErrInvalid, before it sends
// anything, if a field of the options is out of its range.
func Open(ctx context.Context, storeURL string, opts *Options) (*Client, error) {
	if cfg := newConfig(opts); cfg.invalid != nil {
		return nil, wrap("open store", "", cfg.invalid)
	}
	store, err := driver.Open(uncaused{ctx}, storeURL)
	if err != nil {
		return nil, wrap("open store", "", err)
	}
	c := New(store, opts)
	c.owned = true
	if err := c.ready(ctx); err != nil {
		_ = c.Close() // nothing is held; the caller needs the error of Init
		return nil, wrap("open store", "", err)
	}
	return c, nil
}

// initRun is one run of the store's Init, for all callers that wait for it.
type initRun struct {
	done chan struct{}
	err  error
}

// initTimeout is how long an Init may take. Init can be repeated: the next one
// continues what was cut off.
const initTimeout = 10 * time.Second

var errNotReady = fmt.Errorf("the store was not ready within %v", initTimeout)

// ready waits until the store's Init has succeeded once. The error of a run is
// returned to all that waited for it. The next operation begins another run: what was
// wrong may have been fixed.
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
	if c.initDone.Load() {
		c.mu.Unlock()
		return nil
	}
	run := c.initRun
	if run == nil {
		run = &initRun{done: make(chan struct{})}
		c.initRun = run
		c.work.Add(1) // the caller is an operation that Close waits for
		// Other callers may still wait when this caller's ctx has ended.
		go c.runInit(context.WithoutCancel(ctx), store, run)
	}
	c.mu.Unlock()
	select {
	case <-run.done:
		return run.err
	case <-time.After(initTimeout + lastChance): // Init ignores its ctx
		return errNotReady
	case <-ctx.Done():
		return foreign.CtxError(ctx)
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
		// Some stores find out during Init whether they can wake waiters.
		t := c.store.Traits()
		c.log(ctx, slog.LevelDebug, "holdfast: store is ready", "store", t.Name, "wakesWaiters", t.Notifies)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !answered(err):
		err = fmt.Errorf("%w: %w", errNotReady, err)
	}
	if err != nil {
		run.err = c.closedOr(err)
	}
	c.mu.Lock()
	c.initRun = nil
	c.mu.Unlock()
	close(run.done)
}

// untilClose returns a copy of ctx that ends also with the Client, and has no cause. It is
// for calls of the store that have no time-out of their own.
func (c *Client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(uncaused{ctx})
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// closedOr returns the error of a call of the store, or ErrClosed if Close may have
// cut the call off.
func (c *Client) closedOr(err error) error {
	if c.life.Err() != nil && !answered(err) {
		return ErrClosed
	}
	return err
}

// elapsed returns the time since New. It is cheaper than time.Now, which reads two
// clocks.
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

// start is begin after a check of the options and of ctx, and waits until the store is
// ready.
func (c *Client) start(ctx context.Context) error {
	if c.invalid != nil {
		return c.invalid
	}
	if ctx.Err() != nil {
		return foreign.CtxError(ctx)
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

// Done returns a channel that is closed when Close begins, once the contexts of the holds
// have ended. Code with waits of its own can end them with the Client.
func (c *Client) Done() <-chan struct{} { return c.life.Done() }

// Traits returns what the store promises.
func (c *Client) Traits() Traits { return c.store.Traits() }

// closePatience is how long Close takes at most, and doPatience how long of that it
// waits for the functions that Do runs.
const (
	closePatience = 5 * time.Second
	doPatience    = 3 * time.Second
)

// Close ends the Client: waits fail with ErrClosed, the contexts of holds end with it,
// and Close releases what is held, or leaves it if Options.LeaveHolds says so. Close
// first waits up to 3 s for the functions that Do runs, whose holds it keeps alive
// meanwhile, and takes at most 5 s in all.
//
// Its error names a hold that could not be released, which ends by itself, or says
// that something goes on: a function that Do runs, a loop over Holds, or a call of
// the store. A store that Open made is then closed when that has ended. So none of
// these should call Close. Closing again does nothing.
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
		if !h.inDo {
			c.endHold(h, ErrClosed)
			held = append(held, h)
			continue
		}
		// Its function gets time to return, and the keep-alive goes on meanwhile.
		if c.expire(h); h.state == live {
			h.end(ErrClosed)
		}
		running = append(running, h)
	}
	c.work.Add(1) // until the holds are released and their clean-ups have begun
	c.cleanBy = began + cleanClosing
	c.cleanLast()
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	c.mu.Unlock()
	defer close(c.closeDone)
	c.endLife()
	c.endBound(held...)
	c.endBound(running...)

	left := func(of time.Duration) time.Duration { return max(of-(c.elapsed()-began), 0) }
	ended, closed := make(chan struct{}), make(chan struct{})
	var err, closeErr error
	go func() {
		c.running.Wait()
		c.endRenew() // a renewal that hangs delays nothing
		c.work.Wait()
		close(ended)
		if c.owned {
			closeErr = c.store.Close()
		}
		close(closed)
	}()
	if !c.opts.LeaveHolds {
		err = c.releaseWithin(held, left(closePatience-closeMargin))
		c.mu.Lock()
		for _, h := range held {
			c.cleanStrays(h, 0)
		}
		c.mu.Unlock()
	}
	c.work.Done()
	within(ended, left(doPatience))
	unreleased := c.endRenewals(running)
	if !c.opts.LeaveHolds {
		err = cmp.Or(err, c.releaseWithin(unreleased, left(closePatience)))
	}
	if within(closed, left(closePatience)) {
		err = cmp.Or(err, closeErr)
	} else {
		err = cmp.Or(err, errStillRunning)
	}
	within(c.notifier.Pending(), left(closePatience))
	return err
}

var errStillRunning = fmt.Errorf("holdfast: close: something goes on after %v: a function that Do runs, a loop over Holds or a call of the store", closePatience)

// within waits until the channel closes, and reports whether it did in time. A nil
// channel counts as closed.
func within(done <-chan struct{}, d time.Duration) bool {
	if done == nil {
		return true
	}
	if d <= 0 { // select would choose a timer that has fired as often as done
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// endRenewals ends the keep-alive of the holds that are left, and returns those of them
// that the store may still have.
func (c *Client) endRenewals(hs []*Hold) []*Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hs {
		c.endHold(h, ErrClosed)
	}
	c.endRenew()
	if c.timer != nil {
		c.timer.Stop()
	}
	return slices.DeleteFunc(hs, func(h *Hold) bool { return h.state != released })
}
