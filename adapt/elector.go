package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// ErrNotLeader says that this instance does not hold the lock of the leader.
var ErrNotLeader = errors.New("this instance is not the leader")

// Elector is gocron's Elector: one instance runs all jobs until it ends or loses its
// lock. The first one that is asked leads, and its Client keeps the lock until Close. All
// methods may be called concurrently.
type Elector struct {
	client   *holdfast.Client
	resource string
	lock     *holdfast.LockOptions
	asking   chan struct{} // has an element while a caller asks the store

	mu    sync.Mutex
	hold  *holdfast.Hold // nil: it has never led
	tasks int            // that run under hold
}

// NewElector returns an Elector of the instances that use the resource.
func NewElector(client *holdfast.Client, resource string, o *holdfast.LockOptions) *Elector {
	return &Elector{client: client, resource: resource, lock: o, asking: make(chan struct{}, 1)}
}

// IsLeader returns nil if this instance leads. If there is no leader, it becomes the
// leader. It does not wait for the leader to end, and takes 5 s at most. The error is
// ErrNotLeader, and says why.
//
// After a loss this instance leads again only when all functions of Task have returned.
func (e *Elector) IsLeader(ctx context.Context) error {
	if _, err := e.leads(0); err == nil {
		return nil
	}
	select {
	case e.asking <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("holdfast: %w: %w", ErrNotLeader, ctx.Err())
	}
	defer func() { <-e.asking }()
	// Another caller may have asked meanwhile.
	if _, err := e.leads(0); err == nil || errors.Is(err, errStillRunning) {
		return err
	}
	h, err := tryLock(ctx, e.client, e.resource, e.lock)
	if err != nil {
		return fmt.Errorf("holdfast: %w: %w", ErrNotLeader, err)
	}
	e.mu.Lock()
	e.hold = h
	e.mu.Unlock()
	return nil
}

var errStillRunning = errors.New("the lock was lost, and jobs that began under it have not returned")

// leads returns the hold by which this instance leads, and adds tasks to those under it.
func (e *Elector) leads(tasks int) (*holdfast.Hold, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.hold == nil:
		return nil, fmt.Errorf("holdfast: %w", ErrNotLeader)
	case e.hold.Left() > 0:
		e.tasks += tasks
		return e.hold, nil
	case e.tasks > 0:
		return nil, fmt.Errorf("holdfast: %w: %w", ErrNotLeader, errStillRunning)
	}
	return nil, fmt.Errorf("holdfast: %w any more", ErrNotLeader)
}

// Task returns the function of a job, for gocron.NewTask. It runs fn with a ctx that ends
// also when this instance no longer leads. It returns fn's error, joined with the reason
// if the lock ended before fn did. If this instance does not lead, Task does not run fn
// and returns ErrNotLeader.
func (e *Elector) Task(fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		h, err := e.leads(1)
		if err != nil {
			return err
		}
		defer func() {
			e.mu.Lock()
			e.tasks--
			e.mu.Unlock()
		}()
		return under(ctx, h, fn)
	}
}
