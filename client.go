package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/internal/waitline"
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
//
// Its state is in four rooms, each with a mutex of its own: leases has the live holds, lines
// who waits for one, cleaner what may be left in the store, and tell the calls of the Logger
// and the Trace. What follows from an answer of the store passes from one to the next here.
type Client struct {
	config
	store   driver.Store
	owned   bool // Close closes the store
	scope   *storecall.Scope
	leases  *lease.Leases
	lines   *waitline.Lines
	cleaner *cleanup.Cleaner
	tell    tell.Queue
	logger  *slog.Logger // by tell; nil: there is none

	initDone  atomic.Bool
	planSweep sync.Once
	closeDone chan struct{}

	mu      sync.Mutex // guards what follows
	initRun *initRun   // the one under way, or nil
	sweeper *time.Timer
}

// maxUntold is how many calls of the Logger and the Trace may wait.
const maxUntold = 10_000

// New returns a Client of the store. It sends nothing: the first operation makes the
// store prepare and check what it needs. Close does not close the store, which may
// serve other clients.
func New(store driver.Store, opts *Options) *Client {
	c := &Client{config: newConfig(opts), store: store, closeDone: make(chan struct{})}
	c.tell.Most, c.tell.Overflow = maxUntold, c.sayLeftOut
	if c.opts.Logger != nil {
		c.logger = c.tell.Logger(c.opts.Logger)
	}
	c.scope = storecall.NewScope(c.clock)
	c.leases = lease.New(lease.Config{
		Scope: c.scope, Store: store, Margin: c.marginOf, Loss: lossOf,
		Started: c.holdStarted, Renewed: c.holdRenewed, Ended: c.holdEnded, Lost: c.holdLost, Forgotten: c.cleanForgotten,
	})
	c.cleaner = cleanup.New(cleanup.Config{
		Scope: c.scope, Send: store.Release,
		Freed: func(resource string) { c.lines.Wake(resource) },
	})
	lines := waitline.Config{
		Scope: c.scope, Traits: store.Traits, Places: 1, Dropped: c.placeDropped, Poll: c.opts.Poll,
		Watched: c.watched,
	}
	if w, ok := store.(driver.Watcher); ok {
		lines.Watch = w.Watch
	}
	c.lines = waitline.New(lines)
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
	store, err := driver.Open(storecall.Uncaused{Context: ctx}, storeURL)
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
		// Other callers may still wait when this caller's ctx has ended.
		c.scope.Go(func() { c.runInit(context.WithoutCancel(ctx), store, run) })
	}
	c.mu.Unlock()
	select {
	case <-run.done:
		return run.err
	case <-time.After(initTimeout + storecall.LastChance): // Init ignores its ctx
		return errNotReady
	case <-ctx.Done():
		return foreign.CtxError(ctx)
	case <-c.scope.Life.Done():
		return ErrClosed
	}
}

// runInit runs Init once.
func (c *Client) runInit(ctx context.Context, store driver.Initializer, run *initRun) {
	call := &storecall.Context{Parent: ctx, Scope: c.scope, Timeout: initTimeout}
	err := store.Init(call)
	switch {
	case err == nil:
		c.initDone.Store(true)
		// Some stores find out during Init whether they can wake waiters.
		t := c.store.Traits()
		c.log(ctx, slog.LevelDebug, "holdfast: store is ready", "store", t.Name, "wakesWaiters", t.Notifies)
	case errors.Is(call.Err(), context.DeadlineExceeded) && !answered(err):
		err = fmt.Errorf("%w: %w", errNotReady, err)
	}
	_ = call.End(nil)
	if err != nil {
		run.err = c.closedOr(err)
	}
	c.mu.Lock()
	c.initRun = nil
	c.mu.Unlock()
	close(run.done)
}

// closedOr returns the error of a call of the store, or ErrClosed if Close may have
// cut the call off.
func (c *Client) closedOr(err error) error {
	if c.scope.Life.Err() != nil && !answered(err) {
		return ErrClosed
	}
	return err
}

// start begins an operation that uses the store, once that is ready. Unless it fails,
// c.scope.Leave ends it.
func (c *Client) start(ctx context.Context) error {
	if c.invalid != nil {
		return c.invalid
	}
	if ctx.Err() != nil {
		return foreign.CtxError(ctx)
	}
	if !c.scope.Enter() {
		return ErrClosed
	}
	if err := c.ready(ctx); err != nil {
		c.scope.Leave()
		return err
	}
	return nil
}

// Done returns a channel that is closed when Close begins, once the contexts of the holds
// have ended. Code with waits of its own can end them with the Client.
func (c *Client) Done() <-chan struct{} { return c.scope.Life.Done() }

// Traits returns what the store promises.
func (c *Client) Traits() Traits { return c.store.Traits() }

// closePatience is how long Close takes at most, and doPatience how long of that it
// waits for the functions that Do runs.
const (
	closePatience = 5 * time.Second
	doPatience    = 3 * time.Second
	// closeMargin is what a call has to return after its context has ended.
	closeMargin = 100 * time.Millisecond
	// cleanClosing is how long the clean-up goes on after Close began.
	cleanClosing = closePatience - time.Second
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
	if !c.scope.Close() {
		<-c.closeDone
		return nil
	}
	defer close(c.closeDone)
	began := c.scope.Elapsed()
	left := func(of time.Duration) time.Duration { return max(of-(c.scope.Elapsed()-began), 0) }
	// The contexts of holds end before anything is released. The functions that Do runs get
	// time to return, and their holds are kept alive for as long.
	held, running := c.leases.Close(ErrClosed)
	c.cleaner.Close(c.clock() + cleanClosing)
	c.scope.End()
	c.lines.Close()
	c.mu.Lock()
	if c.sweeper != nil {
		c.sweeper.Stop()
	}
	c.mu.Unlock()

	closed := make(chan struct{})
	var err, closeErr error
	go func() {
		c.leases.Wait()
		<-c.scope.Idle
		if c.owned {
			closeErr = c.store.Close()
		}
		close(closed)
	}()
	if !c.opts.LeaveHolds {
		err = c.releaseWithin(held, left(closePatience-closeMargin))
		for _, l := range held {
			c.cleanStrays(holdOf(l), 0)
		}
	}
	c.scope.Leave()
	within(c.scope.Idle, left(doPatience))
	unreleased := c.leases.CloseRunning(running, ErrClosed)
	if !c.opts.LeaveHolds {
		err = cmp.Or(err, c.releaseWithin(unreleased, left(closePatience)))
	}
	if within(closed, left(closePatience)) {
		err = cmp.Or(err, closeErr)
	} else {
		err = cmp.Or(err, errStillRunning)
	}
	within(c.tell.Pending(), left(closePatience))
	return err
}

var errStillRunning = fmt.Errorf("holdfast: close: something goes on after %v: a function that Do runs, a loop over Holds or a call of the store", closePatience)

// within waits until the channel closes, and reports whether it did in time. A nil
// channel counts as closed.
func within(done <-chan struct{}, d time.Duration) bool {
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	default: // the next select would choose a timer that has fired as often as done
	}
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// releaseWithin is releaseHeld within the time that is left to Close, even if the store
// ignores the context of a call: that call then goes on.
func (c *Client) releaseWithin(held []*lease.Lease, left time.Duration) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = c.releaseHeld(held, max(left-closeMargin, 0))
	}()
	if !within(done, max(left, closeMargin)) {
		return errStillRunning
	}
	return err
}

// releaseHeld releases the holds as the Client closes, takes about that long at
// most, and returns the first error.
func (c *Client) releaseHeld(held []*lease.Lease, patience time.Duration) (first error) {
	qs := make([]driver.ReleaseRequest, len(held))
	for i, l := range held {
		qs[i].HoldRef = l.Ref
	}
	began := c.clock()
	for i, err := range c.cleaner.ReleaseAll(context.Background(), qs, patience) {
		c.released(holdOf(held[i]), began, err)
		if err != nil && first == nil {
			first = wrap("release", held[i].Ref.Resource, err)
		}
	}
	return first
}

// log queues a log line.
func (c *Client) log(ctx context.Context, level slog.Level, text string, args ...any) {
	if c.logger != nil {
		c.logger.Log(ctx, level, text, args...)
	}
}

func (c *Client) warn(text string, args ...any) {
	c.log(context.Background(), slog.LevelWarn, text, args...)
}

// sayLeftOut is called by the queue.
func (c *Client) sayLeftOut(n int) {
	if c.opts.Logger != nil {
		c.opts.Logger.Warn("holdfast: the Logger or the Trace is too slow, calls were left out", "leftOut", n)
	}
}
