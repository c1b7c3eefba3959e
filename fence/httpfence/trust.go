package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ErrUntrusted is the error of an Options.Trust that does not accept who sends a new
// token. The answer is 403.
var ErrUntrusted = errors.New("httpfence: not trusted with a new token")

// heldTimeout bounds how long Held waits for the store.
const heldTimeout = 5 * time.Second

// Held is an Options.Trust that accepts a token if an exclusive hold with that token is
// live in the Client's store. Otherwise its error is holdfast.ErrStale: the hold has
// ended, or there never was one. Its error is another one if the store does not answer
// within 5 s. It reads the holds of the resource once for each new token.
func Held(client *holdfast.Client) func(*http.Request, Token) error {
	return func(r *http.Request, t Token) error {
		ctx, cancel := context.WithTimeout(r.Context(), heldTimeout)
		defer cancel()
		for s, err := range client.Holds(ctx, holdfast.Filter{Resource: t.Resource}) {
			if err != nil {
				return err
			}
			if s.Token == t.Value && s.Mode == holdfast.Exclusive && s.Live() && !s.Released {
				return nil
			}
		}
		return fmt.Errorf("httpfence: %w: no live exclusive hold of %q has token %d", holdfast.ErrStale, t.Resource, t.Value)
	}
}
