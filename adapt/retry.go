package adapt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// answerLimit is how long an adapter that must not wait gives the store to answer. A job that
// starts much later than it was due may run a second time elsewhere.
const answerLimit = 5 * time.Second

// errNoAnswer means that the store did not answer within answerLimit.
var errNoAnswer = fmt.Errorf("the store did not answer within %v", answerLimit)

// tryLock is TryLock with answerLimit.
func tryLock(ctx context.Context, client *holdfast.Client, resource string, o *holdfast.LockOptions) (*holdfast.Hold, error) {
	limited, cancel := context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	defer cancel()
	return client.TryLock(limited, resource, o)
}

// transient reports whether another attempt at the lock may succeed. ErrUnusable may end
// soon, for example when somebody has made room in a full store: a leader or a mutex waits
// through that as through outages.
func transient(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	for _, final := range []error{
		holdfast.ErrInvalid, holdfast.ErrUnsupported, holdfast.ErrDamaged, holdfast.ErrClosed,
		holdfast.ErrHeld, // by the caller itself: Lock waits for all other holders
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// patient returns the pauses of a caller that waits without a limit.
func patient() backoff.Backoff { return backoff.New(time.Second, 10*time.Second) }

// wait waits for the next pause. It returns an error if ctx ends, or the Client is closed,
// before.
func wait(ctx context.Context, pauses *backoff.Backoff, client *holdfast.Client) error {
	timer := time.NewTimer(pauses.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return foreign.CtxError(ctx)
	case <-client.Done():
		return holdfast.ErrClosed
	}
}
