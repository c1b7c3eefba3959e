package adapt

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Locker is a gocron.Locker: a job runs on one instance at a time, and the other instances
// skip the run. Use Locker[gocron.Lock] with gocron.WithDistributedLocker, or with
// WithDistributedJobLocker for a job with options of its own. All methods may be called
// concurrently.
type Locker[L Unlocker] struct {
	holds
	report func(err error)
}

// Unlocker is the result of Locker.Lock, a gocron.Lock.
type Unlocker interface {
	Unlock(ctx context.Context) error
}

// LockerOptions configure a Locker. A nil *LockerOptions and the zero value mean the
// defaults.
type LockerOptions struct {
	// Prefix is put before the name of the job. gocron takes that from the name of the
	// function unless WithName sets it. The default is none.
	Prefix string
	// AtLeast is how long the resource stays locked from the start of the job, even if the
	// job ends earlier. Clocks differ: without AtLeast, a job that takes 10 ms runs again on
	// each instance whose clock is 10 ms behind the last one. Set it to more than the clocks
	// may differ, and to less than the interval. If the process is killed, the lock ends
	// after its TTL, whatever AtLeast is. The default is 0.
	//
	// If the store does not answer when the job ends, Unlock retries, while the lock is not
	// lost, until the store has confirmed that the resource stays locked. So Unlock may take
	// the rest of AtLeast. It gives up 5 s after its ctx has ended, and when the Client is
	// closed.
	AtLeast time.Duration
	// Report is called with the error of each Unlock, which gocron ignores: the lock was
	// lost, or the store has not confirmed the release or AtLeast. The caller is the
	// goroutine that ran the job. The default is none.
	Report func(err error)
	// Lock has the options of each lock.
	Lock *holdfast.LockOptions
}

// NewLocker returns a Locker that uses the Client. It panics if L has more methods than
// Unlock, or if AtLeast is not between 0 and 100 years.
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

// Lock acquires the lock for a run of the job if it is free. It does not wait, and takes at
// most 5 s. After an error gocron skips the run.
func (l *Locker[L]) Lock(ctx context.Context, key string) (L, error) {
	mine, err := l.acquire(ctx, key, false)
	if err != nil {
		var none L
		return none, err
	}
	return any(&jobLock{&l.holds, mine, l.report}).(L), nil
}

// jobLock is the lock of a run of a job.
type jobLock struct {
	holds  *holds
	held   *held
	report func(err error)
}

// Unlock releases the lock. A second Unlock returns ErrNotHeld. During a shutdown gocron
// calls Unlock with a ctx that has ended.
func (l *jobLock) Unlock(ctx context.Context) error {
	err := l.holds.release(ctx, l.held)
	if err != nil && l.report != nil {
		l.report(err)
	}
	return err
}

// Task returns the function of a job, for gocron.NewTask. It calls fn with a ctx that also
// ends when the lock of the run does. It returns the error of fn, joined with the reason if
// the lock ended before fn returned, so that gocron reports the job as failed.
//
// The key is the name of the job (gocron.WithName), which is also the name of its lock. If no
// lock of that name is held, Task does not call fn and returns ErrNotHeld.
func (l *Locker[L]) Task(key string, fn func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, h, err := l.find("run the job of", key)
		if err != nil {
			return fmt.Errorf("%w: is that the name of the job?", err)
		}
		return under(ctx, h, fn)
	}
}
