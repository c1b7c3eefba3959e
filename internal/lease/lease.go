// Package lease renews holds until they are released or lost, and ends their contexts before
// the store can grant the resource to another client.
//
// A hold is lost at its deadline, a margin before its end in the store, unless a renewal moves
// the deadline (DESIGN.md, Client). Leases has one timer. Each time it fires, tick ends the
// holds that have passed their deadlines and sends the due renewals. Each batch of renewals
// has its own goroutine, so a store that hangs delays neither the timer nor other batches. The
// answers arrive in answered, which moves the deadline, notes a failure, or ends the hold.
//
// All methods may be called concurrently. They call neither the store nor user code under the
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

// The reasons of a loss.
var (
	ErrExpired     = errors.New("its time ran out")
	ErrForced      = storecall.ErrForced
	ErrUnreachable = errors.New("no renewal got through in time")
)

// ErrReleased is the cause of the contexts of released holds.
var ErrReleased = errors.New("holdfast: lock released")

const never = storecall.Never

// rememberRevoked is how long the answer to an acquire may be under way.
const rememberRevoked = 30 * time.Second

// Config configures Leases.
type Config struct {
	Scope *storecall.Scope
	Store driver.Store
	// Margin returns how long before its end a hold with that TTL counts as lost.
	Margin func(ttl time.Duration) time.Duration
	// Loss returns the error of a lost hold.
	Loss func(l *Lease, cause error) error

	// The events of holds. These functions are called under the mutex, in the order of the
	// events, and must only queue.
	Started func(l *Lease)
	Renewed func(l *Lease, sent, now time.Duration, err error)
	Ended   func(l *Lease, cause error)
	Lost    func(l *Lease, cause error)
	// Forgotten is called without a mutex if a hold with that TTL was lost that may have no
	// end in the store.
	Forgotten func(l *Lease, ttl time.Duration)
}

// Leases are the live holds of one Client.
type Leases struct {
	Config

	mu        sync.Mutex
	closed    bool
	renewing  context.Context // ends when no renewal is needed any more
	endRenew  context.CancelFunc
	live      map[driver.HoldID]*Lease
	named     map[nameKey]*Lease // the live holds whose lock ID the caller chose
	revoked   map[driver.HoldID]revoked
	running   sync.WaitGroup // functions of Do; closed prevents new ones
	due       time.Duration  // when the first hold is due, or earlier
	timer     *time.Timer
	timerAt   time.Duration // when the timer fires; 0 if it is not set
	batch     int           // how many holds a request renews
	failing   bool          // at the last check, a hold had an unanswered renewal
	lossWatch bool          // watchLoss runs, or is not supported
	doubtedAt time.Duration // when the store may last have lost holds: answers to earlier requests do not count
}

// nameKey is a resource and a lock ID, which has at most one hold of it.
type nameKey struct{ resource, lockID string }

// revoked is a hold that another caller than its holder released before its grant arrived. A
// grant of the same hold ID with another token is another hold.
type revoked struct {
	token  uint64
	forced bool
}

// Lease is one hold. Its exported fields are set before Add and do not change.
type Lease struct {
	Ref   driver.HoldRef
	Ctx   context.Context // Context has its values
	Data  any             // for the caller
	Mode  driver.Mode
	Named bool // the caller chose the lock ID
	Keep  bool // the Client renews it

	gone atomic.Bool // the store has confirmed the release
	ls   *Leases
	// Guarded by ls.mu.
	state    State
	endless  bool            // a request to keep it forever was sent
	inFlight bool            // a renewal by keepAlive has no answer yet
	inDo     bool            // Do runs its function and releases the hold afterwards
	isWanted bool            // a renewal has reported waiters
	ctx      context.Context // made by Context
	cancel   context.CancelCauseFunc
	ended    error // the cause of the end of ctx, once it has ended
	loss     error // the error of Config.Loss, if it is lost
	ttl      time.Duration
	deadline time.Duration   // by the clock; final once it has passed
	renewAt  time.Duration   // when it is renewed next
	failure  error           // the error of the last renewal; nil if it was answered
	pauses   backoff.Backoff // after failed renewals
	wanted   chan struct{}   // made by Wanted
	freeFrom time.Duration   // when a delayed release frees the resource; see End
	bound    map[*context.CancelFunc]context.CancelFunc
}

// State is the state of a Lease. It goes from Live to Released or Lost. Only End returns
// Gone.
type State uint8

// The states of a Lease.
const (
	Live     State = iota
	Released       // by the holder; the store may not have confirmed it yet
	Gone           // released, and the store has confirmed it
	Lost
)

// New returns Leases without holds.
func New(cfg Config) *Leases {
	ls := &Leases{
		Config: cfg, live: make(map[driver.HoldID]*Lease), named: make(map[nameKey]*Lease),
		revoked: make(map[driver.HoldID]revoked), due: never, batch: batchSize,
		doubtedAt: -never, // the clock may begin below 0
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

// Add begins a hold that was granted now, by an acquire with the TTL lease that was sent at
// the given time. ttl is the TTL of the renewals. After Close, Add reports false and begins
// no hold.
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

// NamedHold returns the live hold of the resource with the given lock ID if its caller chose
// that ID, or nil.
func (ls *Leases) NamedHold(resource, lockID string) *Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.named[nameKey{resource, lockID}]
	if l == nil || l.deadline <= ls.Scope.Clock() {
		return nil
	}
	return l
}

// Left is a live hold with its TTL and the time left.
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
// another hold: its answer got lost, and it was released before the attempt was repeated.
func (ls *Leases) find(ref driver.HoldRef) *Lease {
	if l := ls.live[ref.HoldID]; l != nil && l.Ref.Token == ref.Token {
		return l
	}
	return nil
}

// Revoke ends the live holds that another caller than their holders is about to release:
// their contexts end before the store gets the release. It returns them, with nil for a hold
// that is not live. If the answer to its acquire is still under way, such a hold ends as soon
// as it begins, until Forget forgets it.
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

// Forget makes the Leases forget revoked holds, once the answers to their acquires can no
// longer arrive.
func (ls *Leases) Forget(refs []driver.HoldRef) {
	time.AfterFunc(rememberRevoked, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, ref := range refs {
			delete(ls.revoked, ref.HoldID)
		}
	})
}

// Close ends the holds. For the holds of running functions of Do it ends only the contexts:
// they are renewed until CloseRunning. It returns both.
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

// Wait waits for the functions of Do and then ends the renewals, so that a hanging one delays
// nothing. It is called after Close.
func (ls *Leases) Wait() {
	ls.running.Wait()
	ls.endRenew()
}

// CloseRunning ends the holds of functions that still run, and the renewals. It returns the
// holds that the store may still have.
func (ls *Leases) CloseRunning(running []*Lease, cause error) (unreleased []*Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.endRenew()
	for _, l := range running {
		if ls.release(l, cause); l.state == Released && !l.gone.Load() {
			unreleased = append(unreleased, l)
		}
	}
	if ls.timer != nil {
		ls.timer.Stop()
	}
	return unreleased
}

// EnterDo notes that Do runs its function under the hold. After Close, which releases the
// hold, it reports false.
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

// LeaveDo notes that the function has returned and the hold was released.
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

// Bind returns a context derived from ctx that also ends with the hold, before End returns.
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

// endBound ends the contexts that are bound to ended holds, before the store gets their
// releases: context.AfterFunc starts a goroutine, which may run too late, and so may another
// caller that ends them. ls.mu is not held, because the parents of the contexts are user
// code.
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

// Left returns the time until the hold counts as lost if it is not renewed. It is 0 if the
// hold has ended, and driver.Forever if it has no end.
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

// Wanted returns a channel that is closed once a renewal has reported waiters.
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

// noteWaiters notes the number of waiters for the resource. ls.mu is held.
func (l *Lease) noteWaiters(n int) {
	if n == 0 || l.isWanted {
		return
	}
	l.isWanted = true
	if l.wanted != nil {
		close(l.wanted)
	}
}

// Ending describes the end of a hold.
type Ending struct {
	State    State
	Loss     error         // if it is lost
	Deadline time.Duration // when it expires at the latest
	TTL      time.Duration // of the last grant or renewal
	Endless  bool          // it may have no end
	InDo     bool          // Do runs its function
	Delay    time.Duration // how long the release is to block the resource
	Repeated bool          // it had ended before
}

// End releases a live hold locally, or loses it if it has expired: the Client no longer
// renews it, and its contexts, also the ones of Bind, have ended when End returns. A renewal
// that is under way finds no hold, or arrives before the release and does no harm.
//
// delay is how long the release is to block the resource. A repeated release keeps the rest
// of the delay.
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

// Confirm notes that the store has confirmed the release of an ended hold. It reports whether
// the hold was lost: then its end was reported before.
func (l *Lease) Confirm(confirmed bool) (lost bool) {
	if confirmed {
		l.gone.Store(true)
	}
	return l.state == Lost // the state is final
}

// expire loses a live hold that has passed its deadline: the process or its machine was
// stopped, or the timer is late. ls.mu is held.
func (ls *Leases) expire(l *Lease) {
	if l.state == Live && ls.Scope.Clock() >= l.deadline {
		ls.lose(l, nil)
	}
}

// release ends a live hold, or loses it if it has passed its deadline. ls.mu is held.
func (ls *Leases) release(l *Lease, cause error) {
	ls.expire(l)
	if l.state == Live {
		ls.finish(l, Released, cause)
	}
}

// lose ends a live hold as lost. A nil cause means that its deadline has passed. Later answers
// change nothing. ls.mu is held.
func (ls *Leases) lose(l *Lease, cause error) {
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

// finish ends the renewals of a live hold and its context. ls.mu is held: cancelling runs no
// user code, because context.AfterFunc starts a goroutine.
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
		return // Close has ended it and gave Do's function time to return
	}
	l.ended = cause
	if l.cancel != nil {
		l.cancel(cause)
	}
	ls.Ended(l, cause)
}

// expiry returns why a hold that has passed its deadline was lost. ls.mu is held.
func (l *Lease) expiry() error {
	switch {
	case l.failure != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, l.failure)
	case l.inFlight:
		return ErrUnreachable
	}
	return ErrExpired
}
