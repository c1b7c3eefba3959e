package adapt

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// JobOptions configure a Job. A nil *JobOptions and the zero value mean the defaults.
type JobOptions struct {
	// AtLeast is how long the resource stays locked from the start of the job: see
	// LockerOptions.AtLeast. What is said there of Unlock applies to the end of the run. The
	// default is 0.
	AtLeast time.Duration
	// Report is called with the result of each run that did not happen, or not wholly under
	// the lock: holdfast.ErrHeld if the job runs on another instance (a *holdfast.HeldError)
	// or in this one; another error if the store did not answer; a *holdfast.LostError if the
	// lock was lost before fn returned or before the store had confirmed AtLeast. The caller
	// is the goroutine that runs the job. The default is none.
	Report func(err error)
	// Lock has the options of each lock.
	Lock *holdfast.LockOptions
}

// Job returns a function for robfig/cron or any timer that runs fn with the resource locked.
// The function skips the run if the job runs on another instance, or if an earlier run in
// this process has not returned, even if that has lost its lock. It does not wait: if the
// store does not answer within 5 s, it skips the run.
//
// The ctx of fn is derived from ctx, which is for the end of the program, and also ends when
// the lock is lost. If fn panics, the function releases the lock and the panic continues.
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
	// TryDo's ctx is also that of fn, so the limit for the answer has to end it separately.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(answerLimit, func() { cancel(errNoAnswer) })
	defer limit.Stop()
	var early, late error
	err = client.TryDo(ctx, resource, o.Lock, func(bound context.Context) error {
		granted := time.Now()
		if !limit.Stop() {
			return errNoAnswer // the answer came when the time ended
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
		return late // release returned it
	}
	return err
}
