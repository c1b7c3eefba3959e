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

// Types of package driver, which has their fields and methods.
type (
	// Mode is Exclusive or Shared.
	Mode = driver.Mode

	// HoldID identifies one acquisition. driver.ParseHoldID parses its text.
	HoldID = driver.HoldID

	// Status is a hold in the store. Its methods Age and RenewedAgo measure by the store's
	// clock.
	Status = driver.Status

	// Filter selects holds or waiters. The zero value selects all.
	Filter = driver.Filter

	// Traits are the promises of a store.
	Traits = driver.Traits

	// HeldError describes the holds and the waiters that are in the way of a lock. It
	// matches ErrHeld.
	//
	// Position is the number of waiters that are served before the caller: 0 if the caller
	// is next, and driver.NoPlace (-1) if it has no place in the store's queue. (The holdfast
	// command counts from 1.) Waiters is the number of all waiters. Ahead has the first
	// four waiters that are served before the caller. If there are any, a lock can be
	// refused although the resource is free.
	HeldError = driver.HeldError

	// Place is a waiter in the store's queue of a resource. Its methods Age and AskedAgo
	// measure by the store's clock.
	Place = driver.Place
)

// The modes of locks.
const (
	// Exclusive allows no other hold of the resource.
	Exclusive = driver.Exclusive
	// Shared allows other shared holds, up to LockOptions.Limit.
	Shared = driver.Shared
)

const (
	// Forever is the TTL of a hold that never expires.
	Forever = driver.Forever
	// MaxTTL is the longest finite TTL, 100 years.
	MaxTTL = driver.MaxTTL
)

// Client acquires locks in one store, waits for them, renews them and reports when one is
// lost. Use New or Open to make one, usually one for each program and store. All methods may
// be called concurrently.
type Client struct {
	config
	store driver.Store
	owned bool // Close closes the store
	scope *storecall.Scope

	// Each of these has a mutex of its own. The Client passes the consequences of the
	// store's answers from one to the next.
	leases  *lease.Leases    // the live holds
	lines   *waitline.Lines  // the waiters
	cleaner *cleanup.Cleaner // holds and places that may be left in the store
	tell    tell.Queue       // the pending calls of the Logger and the Trace
	logger  *slog.Logger     // by tell; nil: there is none

	initDone  atomic.Bool
	planSweep sync.Once
	closeDone chan struct{}

	mu      sync.Mutex // guards the fields below
	initRun *initRun   // the present run, or nil
	sweeper *time.Timer
}

// maxPendingCalls is how many calls of the Logger and the Trace may wait.
const maxPendingCalls = 10_000

// New returns a Client of the store. It sends nothing: the first operation makes the store
// prepare and check what it needs. Close does not close the store, which may have other
// Clients.
func New(store driver.Store, opts *Options) *Client {
	c := &Client{config: newConfig(opts), store: store, closeDone: make(chan struct{})}
	c.tell.Most, c.tell.Overflow = maxPendingCalls, c.warnLeftOut
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

// Open returns a Client of the store with the given URL, after the store has prepared and
// checked what it needs. The program must import the package of the store: see the package
// documentation for the URL schemes. Close also closes the store. If an option is out of its
// range, Open sends nothing and returns ErrInvalid.
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

// initRun is one run of the store's Init, shared by all callers that wait for it.
type initRun struct {
	done chan struct{}
	err  error
}

// initTimeout limits one run of Init. The next run continues an interrupted one.
const initTimeout = 10 * time.Second

var errNotReady = fmt.Errorf("the store was not ready within %v", initTimeout)

// ready waits until the store's Init has succeeded once. All callers that waited for a run
// get its error. The next operation starts another run: the problem may have been fixed.
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

// closedOr returns err, the error of a call of the store, or ErrClosed if Close may have
// interrupted the call.
func (c *Client) closedOr(err error) error {
	if c.scope.Life.Err() != nil && !answered(err) {
		return ErrClosed
	}
	return err
}

// start begins an operation that uses the store, once the store is ready. If start returns
// nil, the operation ends with c.scope.Leave.
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

// Done returns a channel that is closed when Close has ended the contexts of the holds. Other
// code can use it to end its own waits with the Client.
func (c *Client) Done() <-chan struct{} { return c.scope.Life.Done() }

// Traits returns the promises of the store.
func (c *Client) Traits() Traits { return c.store.Traits() }

const (
	// closePatience is the longest time that Close takes.
	closePatience = 5 * time.Second
	// doPatience is how long of it Close waits for the functions of Do.
	doPatience = 3 * time.Second
	// closeMargin is how long a call may take to return after its context has ended.
	closeMargin = 100 * time.Millisecond
	// cleanClosing is how long the clean-up goes on after Close began.
	cleanClosing = closePatience - time.Second
)

// Close closes the Client. Waiting calls return ErrClosed, the contexts of the holds end with
// the cause ErrClosed, and Close releases the holds, unless Options.LeaveHolds is set. For up
// to 3 s it waits for the functions of Do to return, and keeps their holds alive until then.
// After that it releases these too, even if a function still runs: wait for your functions
// first. Close takes at most 5 s.
//
// The error is about a hold that could not be released and lives until it expires, or about
// something that is still running: a function of Do, a loop over Admin.Holds, or a call of
// the store. A store that Open made is closed when that has returned. Functions of Do and
// loops over Admin.Holds should not call Close, because it waits for them. A second Close does
// nothing.
func (c *Client) Close() error {
	if !c.scope.Close() {
		<-c.closeDone
		return nil
	}
	defer close(c.closeDone)
	began := c.scope.Elapsed()
	left := func(of time.Duration) time.Duration { return max(of-(c.scope.Elapsed()-began), 0) }
	// The contexts of the holds end before anything is released. The functions of Do get
	// time to return, and their holds are kept alive until then.
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
	default: // the next select would choose an expired timer as often as done
	}
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// releaseWithin is releaseHeld for the time that Close has left. It returns in time even if
// the store ignores the context of a call, which then goes on.
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

// releaseHeld releases the holds of a Client that closes, within about the given patience,
// and returns the first error.
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

// warnLeftOut logs how many calls the tell.Queue has left out.
func (c *Client) warnLeftOut(n int) {
	if c.opts.Logger != nil {
		c.opts.Logger.Warn("holdfast: the Logger or the Trace is too slow, calls were left out", "leftOut", n)
	}
}
