package adapt

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// JobOptions configure a Job. Nil and the zero value are the defaults.
type JobOptions struct {
	// AtLeast is how long the resource stays locked, from the start of the job: see
	// LockerOptions.AtLeast, whose Unlock is the end of the run here. Default: 0.
	AtLeast time.Duration
	// Report gets the result of each run that did not happen, or not wholly under the
	// lock: holdfast.ErrHeld if the job runs on another instance (a *holdfast.HeldError) or
	// in this one, another error if the store did not answer, a *holdfast.LostError if the
	// lock was lost before fn returned, or before the store had confirmed AtLeast. It is
	// called by the goroutine that runs the job. Default: none.
	Report func(err error)
	// Lock are the options of each lock.
	Lock *holdfast.LockOptions
}

// Job returns a function that runs fn with the resource locked, or does not run it if
// another instance does, or if an earlier run in this process has not returned, even if it
// has lost its lock: a job of robfig/cron, or of any timer. fn's ctx is derived from
// the given one, which ends the jobs of a program that ends; it ends also when the lock is
// lost. The function does not wait: if the store does not answer within 5 s, it skips the
// run. If fn panics, it releases the lock, and the panic goes on.
//
// Job panics if AtLeast is not between 0 and 100 years.
func Job(ctx context.Context, client *holdfast.Client, resource string, o *JobOptions, fn func(ctx context.Context)) func() {
	if o == nil {
		o = new(JobOptions)
	}
	if err := validAtLeast(o.AtLeast); err != nil {
		panic(err)
	}
	return func() {
		if err := run(ctx, client, resource, o, fn); err != nil && o.Report != nil {
			o.Report(err)
		}
	}
}

// run is one run of a job.
func run(ctx context.Context, client *holdfast.Client, resource string, o *JobOptions, fn func(ctx context.Context)) error {
	t, err := takeTurn(ctx, client, resource, false)
	if err != nil {
		return err
	}
	defer t.end()
	// TryDo's ctx is also fn's, so the time for the answer has to end it by itself.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(answerLimit, func() { cancel(errNoAnswer) })
	defer limit.Stop()
	var early, late error
	err = client.TryDo(ctx, resource, o.Lock, func(bound context.Context) error {
		granted := time.Now()
		if !limit.Stop() {
			return errNoAnswer // the answer came as the time ended
		}
		h := holdfast.HoldOf(bound)
		// Within TryDo, so that Close waits for it.
		defer func() {
			early = context.Cause(h.Context())
			if early == nil && o.AtLeast > 0 {
				late = release(ctx, h, granted, o.AtLeast)
			}
		}()
		fn(bound)
		return nil
	})
	if early == nil && errors.Is(err, holdfast.ErrReleased) {
		return late // by release
	}
	return err
}
