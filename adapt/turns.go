package adapt

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// turn is the right to use a resource of a Client in this process. One caller at a time has
// it: from before it asks for the lock until its function has returned or it has released the
// lock, even if the lock was lost in between. So a caller that has not noticed a loss never
// runs beside the next one.
type turn struct {
	place
	taken chan struct{} // has an element while a caller has the turn
	users int           // callers that have or want the turn; guarded by turns.mu
}

// place is a resource of a Client.
type place struct {
	client   *holdfast.Client
	resource string
}

// turns has the turns that callers of all adapters have or want.
var turns = struct {
	mu sync.Mutex // not held across I/O or waits
	of map[place]*turn
}{of: make(map[place]*turn)}

// takeTurn takes the turn, which the caller must end. With wait it waits until ctx ends or
// the Client is closed. Otherwise it fails with a busyError if another caller has the turn.
func takeTurn(ctx context.Context, client *holdfast.Client, resource string, wait bool) (*turn, error) {
	at := place{client, resource}
	turns.mu.Lock()
	t := turns.of[at]
	if t == nil {
		t = &turn{place: at, taken: make(chan struct{}, 1)}
		turns.of[at] = t
	}
	t.users++
	turns.mu.Unlock()
	if err := t.take(ctx, wait); err != nil {
		t.leave()
		return nil, err
	}
	return t, nil
}

func (t *turn) take(ctx context.Context, wait bool) error {
	select {
	case t.taken <- struct{}{}:
		return nil
	default:
	}
	if !wait || t.isOf(ctx) {
		return busyError{t.resource}
	}
	select {
	case t.taken <- struct{}{}: // callers get it in the order in which they came
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w; %w", busyError{t.resource}, foreign.CtxError(ctx))
	case <-t.client.Done():
		return holdfast.ErrClosed
	}
}

// isOf reports whether the caller works under the lock, so that it would wait for itself.
func (t *turn) isOf(ctx context.Context) bool {
	for h := range holdfast.HoldsOf(ctx) {
		if h.Client() == t.client && h.Resource() == t.resource && h.Left() > 0 {
			return true
		}
	}
	return false
}

// end passes the turn to the next caller.
func (t *turn) end() {
	<-t.taken
	t.leave()
}

func (t *turn) leave() {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(turns.of, t.place)
	}
}

// busyError means that another caller has the turn. It matches holdfast.ErrHeld.
type busyError struct{ resource string }

func (e busyError) Error() string {
	return fmt.Sprintf("holdfast: %s is in use in this process: a caller holds it or waits for it, or has lost it and goes on", quote.Name(e.resource))
}

func (busyError) Is(target error) bool { return target == holdfast.ErrHeld }

// lockInTurn takes the turn and acquires the lock. With wait it waits until ctx ends;
// otherwise it takes at most answerLimit.
func lockInTurn(ctx context.Context, client *holdfast.Client, resource string, o *holdfast.LockOptions, wait bool) (*turn, *holdfast.Hold, error) {
	t, err := takeTurn(ctx, client, resource, wait)
	if err != nil {
		return nil, nil, err
	}
	var h *holdfast.Hold
	if wait {
		h, err = client.Lock(ctx, resource, o)
	} else {
		h, err = tryLock(ctx, client, resource, o)
	}
	if err != nil {
		t.end()
		return nil, nil, err
	}
	return t, h, nil
}

// doInTurn is Client.Do in the caller's turn.
func doInTurn(ctx context.Context, client *holdfast.Client, resource string, o *holdfast.LockOptions, fn func(ctx context.Context) error) error {
	t, err := takeTurn(ctx, client, resource, true)
	if err != nil {
		return err
	}
	defer t.end()
	return client.Do(ctx, resource, o, fn)
}
