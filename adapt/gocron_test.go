package adapt_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		o := &adapt.LockerOptions{Prefix: "cron/", AtLeast: time.Minute}
		here, there := adapt.NewLocker[adapt.Unlocker](mine, o), adapt.NewLocker[adapt.Unlocker](others, o)
		lock, err := here.Lock(t.Context(), "report")
		is(t, err, nil)
		if free(t, others, "cron/report") {
			t.Error("another resource is locked")
		}
		for name, l := range map[string]*adapt.Locker[adapt.Unlocker]{"this": here, "another": there} {
			began := time.Now()
			if got, err := l.Lock(t.Context(), "report"); !errors.Is(err, holdfast.ErrHeld) || got != nil {
				t.Errorf("a second Lock by %s instance: %v, error %v", name, got, err)
			}
			if time.Since(began) != 0 {
				t.Errorf("%s instance waited", name)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // as gocron does at a shutdown
		is(t, lock.Unlock(ended), nil)
		is(t, lock.Unlock(ended), adapt.ErrNotHeld)
		time.Sleep(59 * time.Second)
		if _, err := there.Lock(t.Context(), "report"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("within AtLeast: error %v", err)
		}
		time.Sleep(2 * time.Second)
		lock, err = there.Lock(t.Context(), "report")
		is(t, err, nil)
		is(t, lock.Unlock(t.Context()), nil)
	})
}

// A Locker that waited would start the run after another instance has ended its own.
func TestLockerWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _, cut := unreachable(t)
		cut(true)
		began := time.Now()
		_, err := adapt.NewLocker[adapt.Unlocker](mine, nil).Lock(t.Context(), "report")
		if took := time.Since(began); err == nil || errors.Is(err, holdfast.ErrHeld) || took > 6*time.Second {
			t.Errorf("error %v after %v", err, took)
		}
	})
}

// A repeated Unlock does not release the lock of the next run, and a Locker reports each
// error that gocron ignores.
func TestLockerUnlocksItsOwn(t *testing.T) {
	mine, others := pair(t)
	var reports []error
	l := adapt.NewLocker[adapt.Unlocker](mine, &adapt.LockerOptions{Report: func(err error) { reports = append(reports, err) }})
	first, err := l.Lock(t.Context(), "report")
	is(t, err, nil)
	is(t, first.Unlock(t.Context()), nil)
	second, err := l.Lock(t.Context(), "report")
	is(t, err, nil)
	is(t, first.Unlock(t.Context()), adapt.ErrNotHeld)
	if free(t, others, "report") {
		t.Error("an Unlock that was repeated released the lock of the next run")
	}
	if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a run begins beside the second: error %v", err)
	}
	is(t, l.Task("report", func(context.Context) error { return nil })(t.Context()), nil)
	seize(t, others, "report")
	is(t, second.Unlock(t.Context()), nil) // the repeat had no effect on it
	if len(reports) != 1 {
		t.Fatalf("reports %v", reports)
	}
	is(t, reports[0], adapt.ErrNotHeld)
}

func TestLockerReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		var reports []error
		l := adapt.NewLocker[adapt.Unlocker](mine, &adapt.LockerOptions{Report: func(err error) { reports = append(reports, err) }})
		lock, err := l.Lock(t.Context(), "report")
		is(t, err, nil)
		seize(t, others, "report")
		time.Sleep(time.Minute)
		is(t, lock.Unlock(t.Context()), holdfast.ErrForced)
		if len(reports) != 1 {
			t.Fatalf("reports %v", reports)
		}
		is(t, reports[0], holdfast.ErrForced)
	})
}

func TestLockerTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		l := adapt.NewLocker[adapt.Unlocker](mine, nil)
		failure := errors.New("the job failed")
		never := l.Task("other", func(context.Context) error { t.Error("the job ran without a lock"); return nil })
		is(t, never(t.Context()), adapt.ErrNotHeld)

		lock, err := l.Lock(t.Context(), "report")
		is(t, err, nil)
		is(t, never(t.Context()), adapt.ErrNotHeld)
		is(t, l.Task("report", func(context.Context) error { return nil })(t.Context()), nil)
		is(t, l.Task("report", func(context.Context) error { return failure })(t.Context()), failure)
		err = l.Task("report", func(ctx context.Context) error {
			seize(t, others, "report")
			lost(t, ctx)
			return failure
		})(t.Context())
		is(t, err, failure)
		is(t, err, holdfast.ErrForced)

		is(t, l.Task("report", func(context.Context) error { t.Error("the job ran after the loss"); return nil })(t.Context()), holdfast.ErrLost)

		// The job has not returned: no other run begins beside it, and its Unlock does not
		// release another holder's lock.
		if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a second run begins: error %v", err)
		}
		next, err := others.TryLock(t.Context(), "report", nil)
		is(t, err, nil)
		is(t, lock.Unlock(t.Context()), holdfast.ErrLost)
		if next.Left() == 0 || free(t, mine, "report") {
			t.Error("the next holder lost its lock")
		}
	})
}

type wide interface {
	adapt.Unlocker
	Lock()
}

func TestLockerOfAnotherType(t *testing.T) {
	mine, _ := pair(t)
	defer func() {
		if recover() == nil {
			t.Error("NewLocker accepted an L that it cannot return")
		}
	}()
	adapt.NewLocker[wide](mine, nil)
}

func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		here, there := adapt.NewElector(mine, "leader", nil), adapt.NewElector(others, "leader", nil)
		is(t, here.Task(func(context.Context) error { t.Error("the job ran without a leader"); return nil })(t.Context()), adapt.ErrNotLeader)
		is(t, here.IsLeader(t.Context()), nil)
		time.Sleep(time.Hour)
		is(t, here.IsLeader(t.Context()), nil)
		is(t, there.IsLeader(t.Context()), adapt.ErrNotLeader)
		is(t, there.IsLeader(t.Context()), holdfast.ErrHeld)

		ran := here.Task(func(ctx context.Context) error {
			seize(t, others, "leader")
			lost(t, ctx)
			// The task goes on. Its instance does not lead again beside it.
			is(t, here.IsLeader(t.Context()), adapt.ErrNotLeader)
			is(t, here.Task(func(context.Context) error { t.Error("the job ran after the loss"); return nil })(t.Context()), adapt.ErrNotLeader)
			return nil
		})(t.Context())
		is(t, ran, holdfast.ErrForced)
		is(t, there.IsLeader(t.Context()), nil)
		is(t, here.IsLeader(t.Context()), holdfast.ErrHeld)
		is(t, others.Close(), nil)
		is(t, here.IsLeader(t.Context()), nil)
		is(t, here.Task(func(context.Context) error { return nil })(t.Context()), nil)
	})
}

func TestElectorWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others, cut := unreachable(t)
		e := adapt.NewElector(mine, "leader", nil)
		is(t, e.IsLeader(t.Context()), nil)
		cut(true)
		is(t, e.IsLeader(t.Context()), nil) // the instance has not lost the lock yet
		err := e.Task(func(ctx context.Context) error { lost(t, ctx); return nil })(t.Context())
		is(t, err, holdfast.ErrUnreachable)
		time.Sleep(time.Minute)
		began := time.Now()
		is(t, e.IsLeader(t.Context()), adapt.ErrNotLeader)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it answered after %v", took)
		}
		if !free(t, others, "leader") {
			t.Error("no other instance can lead")
		}
		cut(false)
		is(t, e.IsLeader(t.Context()), nil)
	})
}

// Jobs that are due together share one attempt.
func TestElectorAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _ := pair(t)
		e := adapt.NewElector(mine, "leader", nil)
		answers := make(chan error, 20)
		for range cap(answers) {
			go func() { answers <- e.IsLeader(t.Context()) }()
		}
		for range cap(answers) {
			is(t, <-answers, nil)
		}
	})
}

// Each caller gets an answer within 5 s, however many ask a store that does not answer.
func TestElectorAskedInAnOutage(t *testing.T) {
	for name, fault := range map[string]func(drivertest.Call) drivertest.Fault{"fails": fails, "hangs": hangs} {
		inBubble(t, name, func(t *testing.T) {
			mine, _, set := failing(t)
			e := adapt.NewElector(mine, "leader", nil)
			set(fault)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					began := time.Now()
					is(t, e.IsLeader(t.Context()), adapt.ErrNotLeader)
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("an answer came after %v", took)
					}
				})
			}
			all.Wait()
			set(works)
			is(t, e.IsLeader(t.Context()), nil)
		})
	}
}

// If a job is removed during its call, no other job misses its run.
func TestElectorAskedByOneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _, set := failing(t)
		e := adapt.NewElector(mine, "leader", nil)
		gate := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { close(gate) })
		set(func(drivertest.Call) drivertest.Fault { return drivertest.Fault{HoldRequest: gate} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answers := make(chan error)
		go func() { answers <- e.IsLeader(ctx) }()
		synctest.Wait()
		go func() { answers <- e.IsLeader(t.Context()) }()
		err := <-answers
		is(t, err, context.DeadlineExceeded)
		is(t, err, adapt.ErrNotLeader)
		is(t, <-answers, nil)
	})
}

// After a leader has lost its lock and its jobs have returned, other callers of its process
// get the resource without another call of the Elector.
func TestElectorEndsItsTurn(t *testing.T) {
	for _, running := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mine, others := pair(t)
			e, n := adapt.NewElector(mine, "leader", nil), adapt.NewNames(mine, nil)
			is(t, e.IsLeader(t.Context()), nil)
			ended := make(chan time.Time, 1)
			if running {
				go func() {
					is(t, e.Task(func(ctx context.Context) error { time.Sleep(time.Hour); return nil })(t.Context()), holdfast.ErrForced)
					ended <- time.Now()
				}()
				synctest.Wait()
			} else {
				ended <- time.Now()
			}
			seize(t, others, "leader")
			is(t, n.Lock(t.Context(), "leader"), nil)
			if took := time.Since(<-ended); took > time.Minute {
				t.Errorf("it had its turn for %v", took)
			}
			is(t, e.IsLeader(t.Context()), holdfast.ErrHeld)
			is(t, n.Unlock(t.Context(), "leader"), nil)
			is(t, e.IsLeader(t.Context()), nil)
		})
	}
}
