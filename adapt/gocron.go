package adapt

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Locker is gocron's Locker: a job runs on one instance at a time, and the others skip
// the run. Locker[gocron.Lock] is a gocron.Locker, for WithDistributedLocker, or for
// WithDistributedJobLocker if a job has options of its own. All methods may be called
// concurrently.
type Locker[L Unlocker] struct {
	holds
	report func(err error)
}

// Unlocker is what Locker.Lock returns: a gocron.Lock.
type Unlocker interface {
	Unlock(ctx context.Context) error
}

// LockerOptions configure a Locker. Nil and the zero value are the defaults.
type LockerOptions struct {
	// Prefix goes before the job's name, which gocron makes of the name of its function
	// unless WithName sets it. Default: none.
	Prefix string
	// AtLeast is how long the resource stays locked, from the start of the job, even if
	// the job ends earlier. Clocks differ: without AtLeast, a job that takes 10 ms runs on
	// each instance whose clock is 10 ms behind the last one. Set it to more than clocks
	// may differ, and to less than the interval. It does not outlast a process that is
	// killed: its lock ends with the TTL. Default: 0.
	//
	// If the store does not answer when the job ends, Unlock retries until the resource is
	// locked for the rest, as long as the lock is not lost: so it may take what is left of
	// AtLeast. It gives up 5 s after its ctx has ended, and when the Client is closed.
	AtLeast time.Duration
	// Report gets the error of each Unlock, which gocron drops: the lock was lost, or the
	// store has not confirmed the release or AtLeast. It is called by the goroutine that ran
	// the job. Default: none.
	Report func(err error)
	// Lock are the options of each lock.
	Lock *holdfast.LockOptions
}

// NewLocker returns a Locker whose locks the Client holds. It panics if L requires more
// than the method Unlock, or if AtLeast is not between 0 and 100 years.
func NewLocker[L Unlocker](client *holdfast.Client, o *LockerOptions) *Locker[L] {
	if o == nil {
		o = new(LockerOptions)
	}
	if err := validAtLeast(o.AtLeast); err != nil {
		panic(err)
	}
	if _, ok := any((*jobLock)(nil)).(L); !ok {
		panic(fmt.Sprintf("holdfast: a Locker cannot return a %T: use Locker[gocron.Lock]", *new(L)))
	}
	return &Locker[L]{holds{client: client, prefix: o.Prefix, lock: o.Lock, atLeast: o.AtLeast}, o.Report}
}

// Lock acquires the lock of a job's run if it is free. It does not wait: an error makes
// gocron skip the run. It takes 5 s at most.
func (l *Locker[L]) Lock(ctx context.Context, key string) (L, error) {
	mine, err := l.acquire(ctx, key, false)
	if err != nil {
		var none L
		return none, err
	}
	return any(&jobLock{&l.holds, mine, l.report}).(L), nil
}

// jobLock is the lock of a job's run.
type jobLock struct {
	holds  *holds
	held   *held
	report func(err error)
}

// Unlock releases the lock. A second Unlock returns ErrNotHeld. At a shutdown gocron calls
// it with a ctx that has ended.
func (l *jobLock) Unlock(ctx context.Context) error {
	err := l.holds.release(ctx, l.held)
	if err != nil && l.report != nil {
		l.report(err)
	}
	return err
}

// Task returns the function of a job, for gocron.NewTask. It runs fn with a ctx that ends
// also when the lock of the job's run does. It returns fn's error, joined with the reason
// if the lock ended before fn did, so that gocron reports that the job failed.
//
// The key is the name of the job (gocron.WithName), which is that of its lock. If no lock
// of that name is held, Task does not run fn and returns ErrNotHeld.
func (l *Locker[L]) Task(key string, fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, h, err := l.find("run the job of", key)
		if err != nil {
			return fmt.Errorf("%w: is that the name of the job?", err)
		}
		return under(ctx, h, fn)
	}
}
