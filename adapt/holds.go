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

// ErrNotHeld says that no caller of the adapter holds a lock of that name.
var ErrNotHeld = errors.New("no lock of that name is held")

// holds are exclusive locks that callers name when they release them. A caller has the
// turn of its resource until it calls release, so nobody's release hits the lock of
// another caller.
type holds struct {
	client  *holdfast.Client
	prefix  string
	lock    *holdfast.LockOptions
	atLeast time.Duration

	mu    sync.Mutex // not held across I/O
	named map[string]*held
}

// held is a lock that a caller has, lost or not. Names renews it with another hold.
type held struct {
	name    string
	turn    *turn
	hold    *holdfast.Hold
	granted time.Time
	told    bool // RenewLockLease has reported the loss
	users   int  // the caller, and calls of RenewLockLease that acquire the lock again
}

// acquire acquires the lock of the name, see lockInTurn.
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

// find returns the lock that a caller has of that name, and its hold.
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

// release releases the lock, and ends the caller's turn, see leave. The error is as that of function
// release, or ErrNotHeld if it was released before.
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

// leave ends the turn when the last user of the lock leaves it.
func (hs *holds) leave(l *held) {
	hs.mu.Lock()
	l.users--
	over := l.users == 0
	hs.mu.Unlock()
	if over {
		l.turn.end()
	}
}

// under runs fn with a copy of ctx that ends also with the hold. It joins fn's error
// with the reason why the hold ended first, if it did.
func under(ctx context.Context, h *holdfast.Hold, fn func(ctx context.Context) error) error {
	bound, cancel := h.Bind(ctx)
	defer cancel()
	if err := context.Cause(h.Context()); err != nil {
		return err // lost before fn began
	}
	err := fn(bound)
	return withLoss(err, h)
}

// withLoss joins a function's error with the reason why its hold ended before it.
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

// Format implements fmt.Formatter, for all adapters with such locks. It reads nothing that
// changes meanwhile.
func (hs *holds) Format(f fmt.State, _ rune) { fmt.Fprint(f, "locks of ", quote.Name(hs.prefix)) }
