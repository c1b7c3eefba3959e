package adapt

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// LeadOptions configure Lead. Nil and the zero value are the defaults.
type LeadOptions struct {
	// Report gets each error after which Lead goes on: that of a term whose lock was lost,
	// run's own error included, and that of an attempt at the lock. It is called by the
	// goroutine that called Lead. Default: none.
	Report func(err error)
	// Lock are the options of each lock.
	Lock *holdfast.LockOptions
}

// Lead waits for the lock of the resource and runs the function while it is held: on one
// instance at a time, of all that call Lead, and once at a time in this process. run's ctx
// ends with the given one and when the lock is lost. If the lock is lost, Lead waits until
// run has returned, however long that takes, and then waits for the lock again. So run is
// called again after each loss, and must start from the beginning.
//
// If run returns while the lock is held, Lead releases it and returns run's error. If run
// releases the lock by itself (Hold.Unlock), it steps down: if it returns nil then, or the
// error of its ctx, Lead waits for the lock again; it returns any other error.
//
// Lead returns ctx's error if ctx ends while it waits. A store that does not answer, or is
// holdfast.ErrUnusable, is asked again, forever; Lead returns errors that asking again does
// not change, such as holdfast.ErrInvalid and ErrClosed. If run panics, Lead releases the
// lock, and the panic goes on.
//
// A run that ignores its ctx goes on beside the next leader. Lead cannot end it; it only
// does not start another one.
func Lead(ctx context.Context, client *holdfast.Client, resource string, o *LeadOptions, run func(ctx context.Context) error) error {
	if o == nil {
		o = new(LeadOptions)
	}
	pauses := patient()
	for {
		var ran bool
		var result, ended error // of run, and why its lock ended before it returned
		err := doInTurn(ctx, client, resource, o.Lock, func(bound context.Context) error {
			ran = true
			result = run(bound)
			ended = context.Cause(holdfast.HoldOf(bound).Context())
			if errors.Is(ended, holdfast.ErrReleased) && (errors.Is(result, bound.Err()) || errors.Is(result, ended)) {
				result = nil
			}
			return result
		})
		stepsDown := errors.Is(ended, holdfast.ErrReleased)
		switch {
		case !ran && !transient(ctx, err):
			return err
		case ran && ended == nil, errors.Is(ended, holdfast.ErrClosed):
			return err
		case stepsDown && result != nil:
			return result
		case ran && !stepsDown && ctx.Err() != nil:
			return err
		}
		if ran {
			// Others that wait come first: an operator may want another leader.
			pauses = patient()
		}
		if !stepsDown && o.Report != nil {
			o.Report(err)
		}
		if err := wait(ctx, &pauses, client); err != nil {
			return err
		}
	}
}
