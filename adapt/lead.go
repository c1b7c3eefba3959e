package adapt

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// Lead waits for the lock of the resource and runs the function while it is held: on one
// instance at a time, of all that call Lead, and once at a time in this process. run's ctx
// ends with the given one and when the lock is lost. If the lock is lost, Lead waits until run has returned, however long
// that takes, and then waits for the lock again. So run is called again after each loss,
// and must start from the beginning.
//
// If run returns while the lock is held, Lead releases it and returns run's error. It
// returns ctx's error if ctx ends while it waits. A store that does not answer is asked
// again, forever; Lead returns errors that asking again does not change, such as
// holdfast.ErrInvalid, ErrUnusable and ErrClosed. If run panics, Lead releases the lock,
// and the panic goes on.
//
// A run that ignores its ctx goes on beside the next leader. Lead cannot end it; it only
// does not start another one.
func Lead(ctx context.Context, client *holdfast.Client, resource string, o *holdfast.LockOptions, run func(ctx context.Context) error) error {
	pauses := patient()
	for {
		var ran, lost bool
		err := doInTurn(ctx, client, resource, o, func(bound context.Context) error {
			ran = true
			err := run(bound)
			lost = context.Cause(holdfast.HoldOf(bound).Context()) != nil
			return err
		})
		switch {
		case err == nil, ran && !lost:
			return err
		case !ran && !transient(ctx, err):
			return err
		case lost && errors.Is(err, holdfast.ErrClosed):
			return err
		case ran:
			// Others that wait come first: an operator may want another leader.
			pauses = patient()
		}
		if err := pauses.wait(ctx, client); err != nil {
			return err
		}
	}
}
