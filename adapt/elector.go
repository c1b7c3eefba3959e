package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// ErrNotLeader means that this instance does not hold the lock of the leader.
var ErrNotLeader = errors.New("this instance is not the leader")

// Elector is a gocron.Elector: one instance runs all jobs until it ends or loses its lock.
// The first instance whose IsLeader is called leads, and its Client keeps the lock until
// Close. All methods may be called concurrently.
type Elector struct {
	client   *holdfast.Client
	resource string
	lock     *holdfast.LockOptions

	mu       sync.Mutex
	term     *term     // nil if this instance does not lead
	campaign *campaign // the present campaign, or nil
}

// term lasts from the grant until this instance no longer leads and its tasks have returned.
type term struct {
	turn  *turn
	hold  *holdfast.Hold
	tasks int // running tasks
}

// campaign is an attempt to become the leader, for all concurrent calls of IsLeader.
type campaign struct {
	done chan struct{}
	err  error
}

// NewElector returns an Elector for the instances that use the resource.
func NewElector(client *holdfast.Client, resource string, o *holdfast.LockOptions) *Elector {
	return &Elector{client: client, resource: resource, lock: o}
}

// IsLeader returns nil if this instance leads. If there is no leader, this instance becomes
// the leader. IsLeader does not wait for another leader to end, and takes at most 5 s. The
// error wraps ErrNotLeader and has the reason.
//
// After a loss this instance leads again only when all functions of Task have returned.
func (e *Elector) IsLeader(ctx context.Context) error {
	e.mu.Lock()
	if e.leads() {
		e.mu.Unlock()
		return nil
	}
	c := e.campaign
	if c == nil {
		c = &campaign{done: make(chan struct{})}
		e.campaign = c
		go e.run(context.WithoutCancel(ctx), c) // other callers may wait for it too
	}
	e.mu.Unlock()
	var err error
	select {
	case <-c.done:
		err = c.err
	case <-ctx.Done():
		err = foreign.CtxError(ctx)
	}
	if err != nil {
		return fmt.Errorf("holdfast: %w: %w", ErrNotLeader, err)
	}
	return nil
}

// run is a campaign.
func (e *Elector) run(ctx context.Context, c *campaign) {
	turn, hold, err := lockInTurn(ctx, e.client, e.resource, e.lock, false)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		t := &term{turn: turn, hold: hold}
		e.term = t
		context.AfterFunc(hold.Context(), func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.settle(t)
		})
	}
	e.campaign, c.err = nil, err
	close(c.done)
}

// leads reports whether this instance leads. e.mu is held.
func (e *Elector) leads() bool {
	if e.term != nil {
		e.settle(e.term)
	}
	return e.term != nil && e.term.hold.Left() > 0
}

// settle ends a term whose lock has ended and whose tasks have returned. e.mu is held.
func (e *Elector) settle(t *term) {
	if e.term == t && t.tasks == 0 && t.hold.Left() == 0 {
		e.term = nil
		t.turn.end()
	}
}

// Task returns the function of a job, for gocron.NewTask. It calls fn with a ctx that also
// ends when this instance no longer leads. It returns the error of fn, joined with the reason
// if the lock ended before fn returned. If this instance does not lead, Task does not call fn
// and returns ErrNotLeader.
func (e *Elector) Task(fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		t := e.begin()
		if t == nil {
			return fmt.Errorf("holdfast: %w", ErrNotLeader)
		}
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			t.tasks--
			e.settle(t)
		}()
		return under(ctx, t.hold, fn)
	}
}

// begin adds a task to the present term of this instance. It returns nil if there is none.
func (e *Elector) begin() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leads() {
		return nil
	}
	e.term.tasks++
	return e.term
}

// Format implements fmt.Formatter. It writes the resource.
func (e *Elector) Format(f fmt.State, _ rune) { fmt.Fprint(f, "elector of ", quote.Name(e.resource)) }
