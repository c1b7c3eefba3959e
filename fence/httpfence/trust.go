package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ErrUntrusted is returned by an Options.Trust that does not accept a new token from this
// caller. The answer is 403.
var ErrUntrusted = errors.New("httpfence: not trusted with a new token")

// heldTimeout is how long Held waits for the store.
const heldTimeout = 5 * time.Second

// Held is an Options.Trust that accepts a token if an exclusive hold with that token is
// live in the Client's store. Otherwise its error is holdfast.ErrStale: the hold has
// ended, or never existed. It returns another error if the store does not answer within
// 5 s. It reads the holds of the resource once for each new token.
//
// If the Client uses a server (package httplock), it needs the right to force on the
// resources, because other callers do not see tokens. Without it, the error is
// holdfast.ErrUnusable.
func Held(client *holdfast.Client) func(*http.Request, Token) error {
	return func(r *http.Request, t Token) error {
		ctx, cancel := context.WithTimeout(r.Context(), heldTimeout)
		defer cancel()
		hidden := false
		for s, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: t.Resource}) {
			if err != nil {
				return err
			}
			switch live := s.Mode == holdfast.Exclusive && s.Left != 0 && !s.Released; {
			case live && s.Token == t.Value:
				return nil
			case live && s.Token == 0:
				hidden = true
			}
		}
		if hidden {
			return fmt.Errorf("httpfence: %w: the store does not show the token of the hold of %q; behind a server, that takes the right to force",
				holdfast.ErrUnusable, t.Resource)
		}
		return fmt.Errorf("httpfence: %w: no live exclusive hold of %q has token %d", holdfast.ErrStale, t.Resource, t.Value)
	}
}
