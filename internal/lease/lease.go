// Package lease keeps holds alive until they are released or lost, and ends their contexts
// before the store can grant the resource to another.
//
// A hold is lost at its deadline, which is a margin before its end in the store, unless a
// renewal moves it (DESIGN.md, Client). Leases has one timer. Each time it fires, tick loses
// what is past its deadline and sends the renewals that are due. Each batch of them has its
// own goroutine, so a store that hangs delays neither the timer nor other batches. The answers
// arrive in answered, which moves the deadline, notes a failure, or loses the hold.
//
// All methods may be called concurrently. None calls the store or the user's code under the
// mutex.
package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Why a hold is lost.
var (
	ErrExpired     = errors.New("its time ran out")
	ErrForced      = storecall.ErrForced
	ErrUnreachable = errors.New("no renewal got through in time")
)

// ErrReleased is the cause of the contexts of holds that were released.
var ErrReleased = errors.New("holdfast: lock released")

const never = storecall.Never

// rememberRevoked is how long the answer to an acquire may be on its way.
const rememberRevoked = 30 * time.Second

// Config is what Leases need.
type Config struct {
	Scope *storecall.Scope
	Store driver.Store
	// Margin returns how long before its end a hold with that TTL counts as lost.
	Margin func(ttl time.Duration) time.Duration
	// Loss returns the error of a hold that is lost because of cause.
	Loss func(l *Lease, cause error) error

	// What becomes of holds. These are called under the mutex, in the order of what happens:
	// they may do no more than queue.
	Started func(l *Lease)
	Renewed func(l *Lease, sent, now time.Duration, err error)
	Ended   func(l *Lease, cause error)
	Lost    func(l *Lease, cause error)
	// Forgotten is called under no mutex: a hold with that TTL was lost that may have no end in
	// the store.
	Forgotten func(l *Lease, ttl time.Duration)
}

// Leases are the live holds of one Client.
type Leases struct {
	Config

	mu        sync.Mutex
	closed    bool
	renewing  context.Context // ends when nothing is to be renewed any more
	endRenew  context.CancelFunc
	live      map[driver.HoldID]*Lease
	named     map[nameKey]*Lease // those of them whose lock ID the caller chose
	revoked   map[driver.HoldID]revoked
	running   sync.WaitGroup // functions of Do; closed lets none begin
	due       time.Duration  // when the first hold is due, or earlier
	timer     *time.Timer
	timerAt   time.Duration // when it fires; 0: it is not set
	batch     int           // how many holds are renewed in one request
	failing   bool          // at the last look, a hold was not renewed yet after a failure
	lossWatch bool          // watchLoss runs, or is useless
	doubtedAt time.Duration // when the store may last have lost holds: earlier answers do not count
}

// nameKey names what a lock ID can hold once.
type nameKey struct{ resource, lockID string }

// revoked is a hold that was released by another than its holder, before its grant arrived. A
// grant of the same hold ID with another token is another one.
type revoked struct {
	token  uint64
	forced bool
}

// Lease is one hold. Its exported fields are set before Add and do not change.
type Lease struct {
	Ref   driver.HoldRef
	Ctx   context.Context // whose values Context carries
	Data  any             // the user's
	Mode  driver.Mode
	Named bool // the caller chose the lock ID
	Keep  bool // it is renewed

	gone atomic.Bool // the store has confirmed its release
	ls   *Leases
	// Guarded by ls.mu.
	state    State
	endless  bool            // a request to keep it forever was sent at some time
	inFlight bool            // a renewal was sent that has no answer yet
	inDo     bool            // Do runs its function, and releases it afterwards
	isWanted bool            // a renewal said that somebody waits
	ctx      context.Context // made by Context
	cancel   context.CancelCauseFunc
	ended    error // the cause of ctx, once it has ended
	loss     error // that of Config.Loss, if it is lost
	ttl      time.Duration
	deadline time.Duration   // on the clock; final once it has passed
	renewAt  time.Duration   // when it is renewed next
	failure  error           // of the last renewal, nil if it was answered
	pauses   backoff.Backoff // after renewals that failed
	wanted   chan struct{}   // made by Wanted
	freeFrom time.Duration   // see Delay
	bound    map[*context.CancelFunc]context.CancelFunc
}

// State of a Lease. It goes from Live to Released, or to Lost. Gone is told by End alone.
type State uint8

// The states.
const (
	Live     State = iota
	Released       // by the holder; the store may not have confirmed it yet
	Gone           // released, and the store has confirmed it
	Lost
)

// New returns Leases without a hold.
func New(cfg Config) *Leases {
	ls := &Leases{
		Config: cfg, live: make(map[driver.HoldID]*Lease), named: make(map[nameKey]*Lease),
		revoked: make(map[driver.HoldID]revoked), due: never, batch: batchSize,
		doubtedAt: -never, // clocks may begin below 0
	}
	ls.renewing, ls.endRenew = context.WithCancel(context.Background())
	return ls
}

// Deadline returns the deadline of a hold after a grant or a renewal. It counts from before
// the request was sent: however late the answer came, the hold does not end in the store
// earlier.
func (ls *Leases) Deadline(sent, ttl time.Duration) time.Duration {
	if ttl == driver.Forever {
		return never
	}
	return sent + ttl - ls.Margin(ttl)
}

// Add begins a hold that was granted now: the acquire that asked for it for lease was sent
// then. ttl is that of its renewals. Add reports false, and begins none, after Close.
func (ls *Leases) Add(l *Lease, sent, now, lease, ttl time.Duration) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return false
	}
	l.ls, l.ttl, l.endless = ls, ttl, ttl == driver.Forever
	l.deadline, l.renewAt = ls.Deadline(sent, lease), sent+lease/3
	ls.live[l.Ref.HoldID] = l
	if l.Named {
		ls.named[nameKey{l.Ref.Resource, l.Ref.LockID}] = l
	}
	ls.Started(l)
	if was, ok := ls.revoked[l.Ref.HoldID]; ok && was.token == l.Ref.Token {
		ls.revoke(l, was.forced)
	}
	ls.armFor(l, now)
	return true
}

// NamedHold returns the live hold of the resource with that lock ID, which its caller chose, or
// nil.
func (ls *Leases) NamedHold(resource, lockID string) *Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.named[nameKey{resource, lockID}]
	if l == nil || l.deadline <= ls.Scope.Clock() {
		return nil
	}
	return l
}

// Left is what is left of a live hold.
type Left struct {
	*Lease
	TTL, Left time.Duration
}

// All returns the live holds.
func (ls *Leases) All() []Left {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.Scope.Clock()
	all := make([]Left, 0, len(ls.live))
	for _, l := range ls.live {
		all = append(all, Left{l, l.ttl, l.left(now)})
	}
	return all
}

// find returns the live hold, or nil. A grant of the same hold ID with another token is
// another one: its answer got lost, and it was released before the attempt was repeated.
func (ls *Leases) find(ref driver.HoldRef) *Lease {
	if l := ls.live[ref.HoldID]; l != nil && l.Ref.Token == ref.Token {
		return l
	}
	return nil
}

// Revoke ends the live holds of those that are about to be released by others than their
// holders: their contexts end before the store releases them. It returns them, nil where there
// is no live hold. That may still begin, if the answer to its acquire is on its way: then it
// ends at once, until Forget lets go of it.
func (ls *Leases) Revoke(refs []driver.HoldRef, forced bool) []*Lease {
	own := make([]*Lease, len(refs))
	ls.mu.Lock()
	for i, ref := range refs {
		if own[i] = ls.find(ref); own[i] != nil {
			ls.revoke(own[i], forced)
		} else {
			ls.revoked[ref.HoldID] = revoked{ref.Token, forced}
		}
	}
	ls.mu.Unlock()
	ls.endBound(own...)
	return own
}

func (ls *Leases) revoke(l *Lease, forced bool) {
	if forced {
		ls.lose(l, ErrForced)
		return
	}
	ls.release(l, ErrReleased)
}

// Forget lets Revoke forget them, once the answer to an acquire can no longer be on its way.
func (ls *Leases) Forget(refs []driver.HoldRef) {
	time.AfterFunc(rememberRevoked, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, ref := range refs {
			delete(ls.revoked, ref.HoldID)
		}
	})
}

// Close ends the holds, but those under which Do runs its function: only their contexts end,
// and they are kept alive until CloseRunning. It returns both.
func (ls *Leases) Close(cause error) (ended, running []*Lease) {
	ls.mu.Lock()
	ls.closed = true
	for _, l := range ls.live {
		if !l.inDo {
			ls.release(l, cause)
			ended = append(ended, l)
			continue
		}
		if ls.expire(l); l.state == Live {
			ls.endContext(l, cause)
		}
		running = append(running, l)
	}
	ls.mu.Unlock()
	ls.endBound(ended...)
	ls.endBound(running...)
	return ended, running
}

// Wait returns when Do runs no function any more, and ends the renewals: one that hangs
// delays nothing. It is called after Close.
func (ls *Leases) Wait() {
	ls.running.Wait()
	ls.endRenew()
}

// CloseRunning ends the holds under which functions still run, and the renewals. It returns
// those of them that the store may still have.
func (ls *Leases) CloseRunning(running []*Lease, cause error) (unreleased []*Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.endRenew()
	for _, l := range running {
		if ls.release(l, cause); l.state == Released {
			unreleased = append(unreleased, l)
		}
	}
	if ls.timer != nil {
		ls.timer.Stop()
	}
	return unreleased
}

// EnterDo notes that Do runs its function under the hold. It reports false after Close, which
// has released the hold, or will.
func (l *Lease) EnterDo() bool {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	if l.ls.closed {
		return false
	}
	l.inDo = true
	l.ls.running.Add(1)
	return true
}

// LeaveDo notes that the function has returned, and that the hold was released.
func (l *Lease) LeaveDo() {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	l.inDo = false
	l.ls.running.Done()
}

// Context returns a context that ends with the hold.
func (l *Lease) Context() context.Context {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	l.ls.expire(l)
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(l.Ctx))
		if l.ended != nil {
			l.cancel(l.ended)
		}
	}
	return l.ctx
}

// Bind returns a copy of ctx that ends also with the hold. End returns only when it has ended.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	own := l.Context()
	end := func() { cancel(context.Cause(own)) }
	stop := context.AfterFunc(own, end)
	key := new(context.CancelFunc)
	l.ls.mu.Lock()
	if l.bound == nil {
		l.bound = make(map[*context.CancelFunc]context.CancelFunc)
	}
	l.bound[key] = end
	l.ls.mu.Unlock()
	if own.Err() != nil {
		end()
	}
	return bound, func() {
		stop()
		l.ls.mu.Lock()
		delete(l.bound, key)
		l.ls.mu.Unlock()
		cancel(nil)
	}
}

// endBound ends the contexts bound to holds that have ended, before the store is asked
// to release these: context.AfterFunc starts a goroutine, which may come too late, and so may
// another caller that ends them. ls.mu is not held, because the parents of the contexts are
// the user's.
func (ls *Leases) endBound(all ...*Lease) {
	var ends []context.CancelFunc
	ls.mu.Lock()
	for _, l := range all {
		if l != nil {
			ends = slices.AppendSeq(ends, maps.Values(l.bound))
		}
	}
	ls.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Left returns the time until the hold counts as lost unless it is renewed: 0 if it has ended,
// and driver.Forever if it has no end.
func (l *Lease) Left() time.Duration {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	if l.ended != nil {
		return 0
	}
	return l.left(l.ls.Scope.Clock())
}

func (l *Lease) left(now time.Duration) time.Duration {
	if l.deadline == never {
		return driver.Forever
	}
	return max(l.deadline-now, 0)
}

// Wanted returns a channel that is closed once a renewal has said that somebody waits.
func (l *Lease) Wanted() <-chan struct{} {
	l.ls.mu.Lock()
	defer l.ls.mu.Unlock()
	if l.wanted == nil {
		l.wanted = make(chan struct{})
		if l.isWanted {
			close(l.wanted)
		}
	}
	return l.wanted
}

// noteWaiters notes how many wait for the resource. ls.mu is held.
func (l *Lease) noteWaiters(n int) {
	if n == 0 || l.isWanted {
		return
	}
	l.isWanted = true
	if l.wanted != nil {
		close(l.wanted)
	}
}

// Ending is how a hold ended.
type Ending struct {
	State    State
	Loss     error         // if it is lost
	Deadline time.Duration // when it ends by itself, at the latest
	TTL      time.Duration // of the last grant or renewal
	Endless  bool          // it may have no end
	InDo     bool          // Do runs its function
	Delay    time.Duration // for how long the release is to block the resource
	Repeated bool          // it had ended before
}

// End releases a live hold on this side, or loses it if its time is over: it is renewed no
// longer, and its contexts have ended when End returns, also those of Bind. So a renewal that
// is on its way finds no hold, or arrives before the release and does no harm.
//
// delay is for how long the release is to block the resource. One that repeats another keeps
// what is left of its delay.
func (l *Lease) End(cause error, delay time.Duration) Ending {
	ls := l.ls
	ls.mu.Lock()
	if delay > 0 || l.freeFrom > 0 {
		now := ls.Scope.Clock()
		l.freeFrom = max(l.freeFrom, now+delay)
		delay = (l.freeFrom - now + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	repeated := l.state != Live
	ls.release(l, cause)
	e := Ending{
		State: l.state, Loss: l.loss, Deadline: l.deadline, TTL: l.ttl, Endless: l.endless, InDo: l.inDo,
		Delay: delay, Repeated: repeated,
	}
	if l.state == Released && l.gone.Load() {
		e.State = Gone
	}
	bound := l.bound != nil
	ls.mu.Unlock()
	if bound {
		ls.endBound(l)
	}
	return e
}

// Confirm notes that the store has confirmed the release of a hold that has ended. It reports
// whether the hold was lost: then its end was told before.
func (l *Lease) Confirm(confirmed bool) (lost bool) {
	if confirmed {
		l.gone.Store(true)
	}
	return l.state == Lost // it changes no more
}

// expire loses a live hold whose time is over: the process or its machine was stopped, or
// the timer is late. ls.mu is held.
func (ls *Leases) expire(l *Lease) {
	if l.state == Live && ls.Scope.Clock() >= l.deadline {
		ls.lose(l, nil)
	}
}

// release ends a live hold, or loses it if its time is over. ls.mu is held.
func (ls *Leases) release(l *Lease, cause error) {
	ls.expire(l)
	if l.state == Live {
		ls.finish(l, Released, cause)
	}
}

// lose ends a hold that is lost because of cause; nil means that its deadline has
// passed. Later answers change nothing. ls.mu is held.
func (ls *Leases) lose(l *Lease, cause error) {
	if l.state != Live {
		return
	}
	if cause == nil {
		cause = l.expiry()
	}
	l.loss = ls.Loss(l, cause)
	ls.finish(l, Lost, l.loss)
	ls.Lost(l, cause)
	if l.endless {
		ttl := l.ttl
		ls.Scope.Go(func() { ls.Forgotten(l, ttl) })
	}
}

// finish ends the keep-alive of a live hold and its context. ls.mu is held: to cancel it runs
// none of the user's code, because context.AfterFunc starts a goroutine.
func (ls *Leases) finish(l *Lease, to State, cause error) {
	l.state = to
	delete(ls.live, l.Ref.HoldID)
	if key := (nameKey{l.Ref.Resource, l.Ref.LockID}); len(ls.named) > 0 && ls.named[key] == l {
		delete(ls.named, key)
	}
	ls.endContext(l, cause)
}

// endContext ends the context of the hold, unless it has ended. ls.mu is held.
func (ls *Leases) endContext(l *Lease, cause error) {
	if l.ended != nil {
		return // as Close began, and Do's function had time to return
	}
	l.ended = cause
	if l.cancel != nil {
		l.cancel(cause)
	}
	ls.Ended(l, cause)
}

// expiry is why a hold that is past its deadline was lost. ls.mu is held.
func (l *Lease) expiry() error {
	switch {
	case l.failure != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, l.failure)
	case l.inFlight:
		return ErrUnreachable
	}
	return ErrExpired
}
