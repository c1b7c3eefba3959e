package adapt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
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
// before.
func release(ctx context.Context, h *holdfast.Hold, granted time.Time, atLeast time.Duration) error {
	early := context.Cause(h.Context())
	rest := atLeast - time.Since(granted)
	if rest <= 0 || early != nil {
		return cmp.Or(h.Unlock(ctx), early)
	}
	return cmp.Or(lengthen(ctx, h, rest), h.UnlockAfter(ctx, rest))
}

// lengthen makes the hold last for the rest: a release with a delay makes none longer.
func lengthen(ctx context.Context, h *holdfast.Hold, rest time.Duration) error {
	if h.Left() >= rest {
		return nil
	}
	// At a shutdown ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	err := h.Renew(ctx, rest)
	if errors.Is(err, holdfast.ErrInvalid) {
		// It is shorter than any TTL that the Client accepts, so that of the hold is
		// longer.
		err = h.Renew(ctx, 0)
	}
	return err
}
