package adapt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// validAtLeast checks how long a lock is to block its resource.
func validAtLeast(d time.Duration) error {
	if d < 0 || d > holdfast.MaxTTL {
		return fmt.Errorf("holdfast: %w: AtLeast %v is not between 0 and 100 years", holdfast.ErrInvalid, d)
	}
	return nil
}

// release releases a hold. The store blocks the resource for what is left of atLeast
// since the grant. The error is that of the release, or the reason why the hold ended
// before, or why the store does not block the resource for so long.
func release(ctx context.Context, h *holdfast.Hold, granted time.Time, atLeast time.Duration) error {
	early := context.Cause(h.Context())
	var short error
	var rest time.Duration
	if early == nil && time.Since(granted) < atLeast {
		short = lengthen(ctx, h, granted.Add(atLeast))
		// If it was lost meanwhile, the store may have it until then.
		rest = max(atLeast-time.Since(granted), 0)
		early = context.Cause(h.Context())
	}
	err := cmp.Or(h.UnlockAfter(ctx, rest), early)
	if err == nil && rest > 0 {
		err = short
	}
	return err
}

// lengthen makes the hold last until then: a release with a delay makes none longer. If the
// store does not answer, lengthen retries while its Client keeps the hold alive, but not for
// longer than answerLimit after ctx has ended: at a shutdown, somebody waits.
func lengthen(ctx context.Context, h *holdfast.Hold, until time.Time) error {
	longer, cancel := outlast(ctx)
	defer cancel()
	ctx, unbind := h.Bind(longer) // Close ends the hold
	defer unbind()
	pauses := backoff.New(100*time.Millisecond, time.Second)
	for {
		rest := time.Until(until)
		if h.Left() >= rest {
			return nil
		}
		err := renew(ctx, h, rest)
		if err == nil || wait(ctx, &pauses, h.Client()) != nil {
			return err
		}
	}
}

// renew makes the hold last for the rest. It takes answerLimit at most.
func renew(ctx context.Context, h *holdfast.Hold, rest time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	defer cancel()
	err := h.Renew(ctx, rest)
	if errors.Is(err, holdfast.ErrInvalid) {
		// It is shorter than any TTL that the Client accepts, so that of the hold is
		// longer.
		err = h.Renew(ctx, 0)
	}
	return err
}

// outlast returns a copy of ctx that ends answerLimit later.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(answerLimit):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}
