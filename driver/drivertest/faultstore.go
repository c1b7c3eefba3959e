package drivertest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// FaultStore is a store in front of another store that disturbs its calls:
//
//	store := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
//		if c.Op == drivertest.Acquire && c.N == 1 {
//			return drivertest.Fault{LoseReply: true}
//		}
//		return drivertest.Fault{}
//	})
//
// For an acquire that arrives after the release that was to clean it up, use Fault{Behind:
// drivertest.Release}: the caller of the acquire waits until its ctx ends.
//
// It needs no clock, and starts goroutines only for calls with HoldRequest, Cut or
// HoldSignals, so it works in a synctest bubble if it is made and closed there. All methods
// may be called concurrently. It supports Watch and Init exactly as far as the inner store
// does.
type FaultStore struct {
	store  driver.Store
	closed chan struct{}
	late   sync.WaitGroup // goroutines that wait to deliver or to signal

	mu     sync.Mutex
	decide func(Call) Fault
	calls  map[Op]int
	behind []delivery
	down   bool
}

// delivery is a request that waits for a later call.
type delivery struct {
	behind Op
	refs   []driver.HoldRef
	send   func()
}

var (
	_ driver.Store       = (*FaultStore)(nil)
	_ driver.Watcher     = (*FaultStore)(nil)
	_ driver.Initializer = (*FaultStore)(nil)
)

// NewFaultStore returns a FaultStore. It calls decide for each call, one call at a time, to
// get its fault. decide must neither block nor call the store. It is also called for requests
// that must not be repeated because they have no hold ID: it should let them pass unless the
// test is about them.
func NewFaultStore(store driver.Store, decide func(Call) Fault) *FaultStore {
	return &FaultStore{
		store: store, decide: decide,
		closed: make(chan struct{}), calls: make(map[Op]int),
	}
}

// Calls returns the number of calls of op so far, disturbed or not.
func (f *FaultStore) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Acquire implements driver.Store.
func (f *FaultStore) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	refs := []driver.HoldRef{{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}}
	call, fault := f.next(Acquire, refs)
	return disturb(ctx, f, call, fault, func(ctx context.Context) (driver.Grant, error) {
		return f.store.Acquire(ctx, q)
	})
}

// Renew implements driver.Store.
func (f *FaultStore) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	refs := make([]driver.HoldRef, len(qs))
	for i, q := range qs {
		refs[i] = q.HoldRef
	}
	call, fault := f.next(Renew, refs)
	results, err := disturb(ctx, f, call, fault, func(ctx context.Context) ([]driver.RenewResult, error) {
		return f.store.Renew(ctx, qs)
	})
	return results[:max(0, len(results)-fault.DropLast)], err
}

// Release implements driver.Store.
func (f *FaultStore) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	refs := make([]driver.HoldRef, len(qs))
	for i, q := range qs {
		refs[i] = q.HoldRef
	}
	call, fault := f.next(Release, refs)
	results, err := disturb(ctx, f, call, fault, func(ctx context.Context) ([]driver.ReleaseResult, error) {
		return f.store.Release(ctx, qs)
	})
	return results[:max(0, len(results)-fault.DropLast)], err
}

// List implements driver.Store. Its request reaches the store when the loop begins.
func (f *FaultStore) List(ctx context.Context, filter driver.Filter) iter.Seq2[driver.Status, error] {
	return listed(ctx, f, filter, f.store.List)
}

// Waiters implements driver.Queue. It gets the faults of List.
func (f *FaultStore) Waiters(ctx context.Context, filter driver.Filter) iter.Seq2[driver.Place, error] {
	return listed(ctx, f, filter, func(ctx context.Context, filter driver.Filter) iter.Seq2[driver.Place, error] {
		return driver.Waiters(ctx, f.store, filter)
	})
}

func listed[T any](ctx context.Context, f *FaultStore, filter driver.Filter,
	list func(context.Context, driver.Filter) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var refs []driver.HoldRef
		if filter.Resource != "" {
			refs = []driver.HoldRef{{Resource: filter.Resource, LockID: filter.LockID}}
		}
		call, fault := f.next(List, refs)
		cutShort := fault.LoseReply
		fault.LoseReply = false
		_, err := disturb(ctx, f, call, fault, func(context.Context) (struct{}, error) { return struct{}{}, nil })
		if err != nil {
			yield(none, err)
			return
		}
		for s, err := range list(ctx, filter) {
			if !yield(s, err) || err != nil {
				return
			}
			if cutShort {
				break
			}
		}
		if cutShort {
			yield(none, fault.err())
		}
	}
}

// Sweep implements driver.Store.
func (f *FaultStore) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	call, fault := f.next(Sweep, nil)
	return disturb(ctx, f, call, fault, func(ctx context.Context) (driver.SweepResult, error) {
		return f.store.Sweep(ctx, q)
	})
}

// Watch implements driver.Watcher.
func (f *FaultStore) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w, ok := f.store.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	refs := []driver.HoldRef{{Resource: resource}}
	call, fault := f.next(Watch, refs)
	signals, err := disturb(ctx, f, call, fault, func(ctx context.Context) (<-chan struct{}, error) {
		return w.Watch(ctx, resource)
	})
	if err != nil || fault.Cut == nil && fault.HoldSignals == nil {
		return signals, err
	}
	disturbed := make(chan struct{}, 1)
	f.start(func() { f.forward(ctx, fault, signals, disturbed) })
	return disturbed, nil
}

// WatchLoss implements driver.LossWatcher. It is not disturbed.
func (f *FaultStore) WatchLoss(ctx context.Context) (<-chan struct{}, error) {
	if w, ok := f.store.(driver.LossWatcher); ok {
		return w.WatchLoss(ctx)
	}
	return nil, driver.ErrUnsupported
}

// forward passes signals on until the watch ends.
func (f *FaultStore) forward(ctx context.Context, fault Fault, from <-chan struct{}, to chan<- struct{}) {
	held, came := fault.HoldSignals, false
	for {
		select {
		case _, open := <-from:
			if !open {
				close(to)
				return
			}
			came = true
		case <-held:
			held = nil
		case <-fault.Cut:
			close(to)
			return
		case <-f.closed:
			close(to)
			return
		case <-ctx.Done():
			return
		}
		if came && held == nil {
			came = false
			select {
			case to <- struct{}{}:
			default: // a signal was not received yet
			}
		}
	}
}

// Init implements driver.Initializer. It is never disturbed.
func (f *FaultStore) Init(ctx context.Context) error {
	if i, ok := f.store.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}

// Traits implements driver.Store.
func (f *FaultStore) Traits() driver.Traits { return f.store.Traits() }

// Close drops requests that are held back, waits for requests that are under way to the
// store, and closes the store.
func (f *FaultStore) Close() error {
	f.mu.Lock()
	if !f.down {
		f.down = true
		close(f.closed)
	}
	f.behind = nil
	f.mu.Unlock()
	f.late.Wait()
	return f.store.Close()
}

// next counts the call and returns its fault.
func (f *FaultStore) next(op Op, refs []driver.HoldRef) (Call, Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	c := Call{Op: op, N: f.calls[op], Refs: refs}
	return c, f.decide(c)
}

// start runs fn in a goroutine, unless the store is closed.
func (f *FaultStore) start(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.down {
		f.late.Go(fn)
	}
}

// disturb makes the call, or does not, as its fault says.
func disturb[T any](ctx context.Context, f *FaultStore, c Call, fault Fault, send func(context.Context) (T, error)) (value T, err error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	switch {
	case fault.LoseRequest:
		return none, fault.err()
	case fault.HoldRequest != nil || fault.Behind != "":
		arrived := holdBack(ctx, f, c, fault, send)
		if fault.LoseReply {
			return none, fault.err()
		}
		select {
		case answer := <-arrived:
			value, err = answer()
		case <-ctx.Done():
			return none, ctx.Err()
		case <-f.closed:
			return none, fault.err()
		}
	default:
		value, err = send(ctx)
		f.reached(c)
	}
	if fault.LoseReply {
		return none, fault.err()
	}
	if fault.HoldReply != nil {
		select {
		case <-fault.HoldReply:
		case <-ctx.Done():
			return none, ctx.Err()
		case <-f.closed:
			return none, fault.err()
		}
	}
	return value, err
}

// holdBack lets the call reach the store later, whether its caller still waits or not, and
// returns the channel of the answer.
func holdBack[T any](ctx context.Context, f *FaultStore, c Call, fault Fault, send func(context.Context) (T, error)) <-chan func() (T, error) {
	arrived := make(chan func() (T, error), 1)
	deliver := func() {
		value, err := send(context.WithoutCancel(ctx))
		arrived <- func() (T, error) { return value, err }
		f.reached(c)
	}
	if fault.Behind != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.down {
			f.behind = append(f.behind, delivery{behind: fault.Behind, refs: c.Refs, send: deliver})
		}
		return arrived
	}
	f.start(func() {
		select {
		case <-fault.HoldRequest:
			deliver()
		case <-f.closed:
		}
	})
	return arrived
}

// reached delivers the requests that waited for the call c, after the store has decided it.
func (f *FaultStore) reached(c Call) {
	f.mu.Lock()
	var due []delivery
	f.behind = slices.DeleteFunc(f.behind, func(d delivery) bool {
		follows := d.behind == c.Op && sameResource(d.refs, c.Refs)
		if follows {
			due = append(due, d)
		}
		return follows
	})
	f.mu.Unlock()
	for _, d := range due {
		d.send()
	}
}

func sameResource(a, b []driver.HoldRef) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Resource == y.Resource {
				return true
			}
		}
	}
	return false
}
