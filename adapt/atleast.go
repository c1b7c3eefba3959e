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

// validAtLeast checks an AtLeast option.
func validAtLeast(d time.Duration) error {
	if d < 0 || d > holdfast.MaxTTL {
		return fmt.Errorf("holdfast: %w: AtLeast %v is not between 0 and 100 years", holdfast.ErrInvalid, d)
	}
	return nil
}

// release releases a hold. The store keeps the resource blocked for the rest of atLeast since
// the grant. The error is that of the release, the reason why the hold had ended before, or
// the reason why the store does not keep the resource blocked.
func release(ctx context.Context, h *holdfast.Hold, granted time.Time, atLeast time.Duration) error {
	early := context.Cause(h.Context())
	var short error
	var rest time.Duration
	if early == nil && time.Since(granted) < atLeast {
		short = lengthen(ctx, h, granted.Add(atLeast))
		// If it was lost since, the store may have it until then.
		rest = max(atLeast-time.Since(granted), 0)
		early = context.Cause(h.Context())
	}
	err := cmp.Or(h.UnlockAfter(ctx, rest), early)
	if err == nil && rest > 0 {
		err = short
	}
	return err
}

// lengthen makes the hold last until the end of atLeast, because a release with a delay never
// makes it longer. If the store does not answer, lengthen retries while the Client renews the
// hold, but for at most answerLimit after ctx has ended: a shutdown waits for it.
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

// renew extends the hold to the rest. It takes at most answerLimit.
func renew(ctx context.Context, h *holdfast.Hold, rest time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	defer cancel()
	err := h.Renew(ctx, rest)
	if errors.Is(err, holdfast.ErrInvalid) {
		// The rest is shorter than any TTL that the Client accepts, so the TTL of the hold is
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
