package adapt

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// LeadOptions configure Lead. A nil *LeadOptions and the zero value mean the defaults.
type LeadOptions struct {
	// Report is called with each error after which Lead continues: of a term whose lock was
	// lost, joined with the error of run, and of an attempt at the lock. The caller is the
	// goroutine that called Lead. The default is none.
	Report func(err error)
	// Lock has the options of each lock.
	Lock *holdfast.LockOptions
}

// Lead waits for the lock of the resource and calls run while it holds the lock: on one
// instance at a time of all that call Lead, and once at a time in this process. The ctx of
// run ends with ctx and when the lock is lost. After a loss Lead waits until run has
// returned, however long that takes, and then waits for the lock again. So run is called
// again after each loss, and must start from the beginning.
//
// If run returns while the lock is held, Lead releases the lock and returns the error of run.
// If run releases the lock itself (Hold.Unlock), it steps down: if it then returns nil or the
// error of its ctx, Lead waits for the lock again. Lead returns any other error.
//
// If ctx ends during a wait, Lead returns its error. It asks a store that does not answer, or
// returns holdfast.ErrUnusable, again and again without an end. It returns errors for which a
// retry is useless, such as holdfast.ErrInvalid and ErrClosed. If run panics, Lead releases
// the lock and the panic continues.
//
// If run ignores its ctx, it continues beside the next leader. Lead cannot stop it; it only
// does not call run again.
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
			// Other waiters come first: an operator may want another leader.
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
