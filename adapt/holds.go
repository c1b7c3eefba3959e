package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// ErrNotHeld means that no caller of the adapter holds a lock of that name.
var ErrNotHeld = errors.New("no lock of that name is held")

// holds are exclusive locks that callers release by name. A caller has the turn of its
// resource until it calls release, so it never releases the lock of another caller.
type holds struct {
	client  *holdfast.Client
	prefix  string
	lock    *holdfast.LockOptions
	atLeast time.Duration

	mu    sync.Mutex // not held across I/O
	named map[string]*held
}

// held is the lock of a caller, lost or not. Names may renew it with another hold.
type held struct {
	name    string
	turn    *turn
	hold    *holdfast.Hold
	granted time.Time
	told    bool // RenewLockLease has reported the loss
	users   int  // the caller, and the calls of RenewLockLease that acquire the lock again
}

// acquire acquires the lock of the name: see lockInTurn.
func (hs *holds) acquire(ctx context.Context, name string, wait bool) (*held, error) {
	t, h, err := lockInTurn(ctx, hs.client, hs.prefix+name, hs.lock, wait)
	if err != nil {
		return nil, err
	}
	mine := &held{name: name, turn: t, hold: h, granted: time.Now(), users: 1}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.named == nil {
		hs.named = make(map[string]*held)
	}
	hs.named[name] = mine
	return mine, nil
}

// find returns the lock that a caller has by that name, and its hold.
func (hs *holds) find(what, name string) (*held, *holdfast.Hold, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	l := hs.named[name]
	if l == nil {
		return nil, nil, hs.notHeld(what, name)
	}
	return l, l.hold, nil
}

func (hs *holds) notHeld(what, name string) error {
	return fmt.Errorf("holdfast: %s %s: %w", what, quote.Name(hs.prefix+name), ErrNotHeld)
}

// release releases the lock and ends the caller's turn: see leave. The error is the one of
// the function release, or ErrNotHeld if the lock was released before.
func (hs *holds) release(ctx context.Context, l *held) error {
	hs.mu.Lock()
	present := hs.named[l.name] == l
	if present {
		delete(hs.named, l.name)
	}
	h, granted := l.hold, l.granted
	hs.mu.Unlock()
	if !present {
		return hs.notHeld("unlock", l.name)
	}
	defer hs.leave(l)
	return release(ctx, h, granted, hs.atLeast)
}

// leave ends the turn when the last user of the lock has left.
func (hs *holds) leave(l *held) {
	hs.mu.Lock()
	l.users--
	over := l.users == 0
	hs.mu.Unlock()
	if over {
		l.turn.end()
	}
}

// under calls fn with a ctx derived from ctx that also ends with the hold. It joins the error
// of fn with the reason if the hold ended first.
func under(ctx context.Context, h *holdfast.Hold, fn func(ctx context.Context) error) error {
	bound, cancel := h.Bind(ctx)
	defer cancel()
	if err := context.Cause(h.Context()); err != nil {
		return err // lost before fn was called
	}
	err := fn(bound)
	return withLoss(err, h)
}

// withLoss joins the error of a function with the reason if its hold ended before it
// returned.
func withLoss(err error, h *holdfast.Hold) error {
	early := context.Cause(h.Context())
	switch {
	case early == nil || errors.Is(err, early):
		return err
	case err == nil:
		return early
	}
	return errors.Join(err, early)
}

// Format implements fmt.Formatter, for all adapters with such locks. It reads only fields
// that never change.
func (hs *holds) Format(f fmt.State, _ rune) { fmt.Fprint(f, "locks of ", quote.Name(hs.prefix)) }
