//go:build unix

package adapters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
)

var (
	_ gocron.Locker  = (*adapt.Locker[gocron.Lock])(nil)
	_ gocron.Elector = (*adapt.Elector)(nil)
	_ gocron.Lock    = (*holdfast.Hold)(nil)
)

// often is the interval of gocron's jobs.
const often = 100 * time.Millisecond

// runGocron runs a job until ctx ends.
func runGocron(ctx context.Context, task func(ctx context.Context) error, option gocron.SchedulerOption, more ...gocron.JobOption) error {
	s, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}
	more = append(more, gocron.WithName("report"))
	if _, err := s.NewJob(gocron.DurationJob(often), gocron.NewTask(task), more...); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}

func gocronLocker(ctx context.Context, w *worker) error {
	locker := adapt.NewLocker[gocron.Lock](w.client, &adapt.LockerOptions{Prefix: "cron/"})
	skip := gocron.WithEventListeners(gocron.AfterLockError(func(uuid.UUID, string, error) { w.say(skipped) }))
	return runGocron(ctx, locker.Task("report", w.work), gocron.WithDistributedLocker(locker), skip)
}

// observed is an Elector that reports each refusal.
type observed struct {
	*adapt.Elector
	w *worker
}

func (o observed) IsLeader(ctx context.Context) error {
	err := o.Elector.IsLeader(ctx)
	if err != nil {
		o.w.say(skipped)
	}
	return err
}

func gocronElector(ctx context.Context, w *worker) error {
	elector := adapt.NewElector(w.client, "scheduler", nil)
	// A leader runs all runs of the job, which may overlap without this option.
	single := gocron.WithSingletonMode(gocron.LimitModeReschedule)
	return runGocron(ctx, elector.Task(w.work), gocron.WithDistributedElector(observed{elector, w}), single)
}

func cronJob(ctx context.Context, w *worker) error {
	report := func(err error) {
		if errors.Is(err, holdfast.ErrHeld) {
			w.say(skipped)
		}
	}
	job := adapt.Job(ctx, w.client, "report", &adapt.JobOptions{Report: report}, func(ctx context.Context) { _ = w.work(ctx) })
	c := cron.New()
	if _, err := c.AddFunc("@every 1s", job); err != nil {
		return err
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

func asynqScheduler(ctx context.Context, w *worker) error {
	redis, err := asynq.ParseRedisURI(w.Data)
	if err != nil {
		return err
	}
	return adapt.Lead(ctx, w.client, "scheduler", nil, func(ctx context.Context) error {
		enqueued := make(chan error, 1)
		s := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
			LogLevel: asynq.ErrorLevel,
			PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
				select {
				case enqueued <- err:
				default:
				}
			},
		})
		if _, err := s.Register("@every 1s", asynq.NewTask("report", nil)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer s.Shutdown()
		select {
		case err := <-enqueued:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return w.work(ctx)
	})
}

// The clocks of two schedulers differ by more than the duration of a job. Without AtLeast, both
// run the job.
func TestGocronWithClocksThatDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		atLeast time.Duration
		want    int
	}{
		"at least": {time.Minute, 1},
		"without":  {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := local(t)
			ran := make(chan bool) // true if the instance ran the job, false if it skipped it
			for range 2 {
				locker := adapt.NewLocker[gocron.Lock](open(t, url), &adapt.LockerOptions{AtLeast: test.atLeast})
				s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
				wantError(t, err, nil)
				job := locker.Task("report", func(context.Context) error { return nil })
				_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(job), gocron.WithName("report"),
					gocron.WithEventListeners(
						gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
							wantError(t, err, holdfast.ErrHeld)
							ran <- false
						}),
						gocron.AfterJobRuns(func(uuid.UUID, string) { ran <- true }),
						gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { t.Error(err) }),
					))
				wantError(t, err, nil)
				s.Start()
				if <-ran {
					test.want--
				}
				wantError(t, s.Shutdown(), nil) // so the clock of the second one is behind by this much
			}
			if test.want != 0 {
				t.Errorf("%d runs are missing", test.want)
			}
		})
	}
}

// A job that loses its lock fails, and gocron tells its listeners.
func TestGocronReportsALoss(t *testing.T) {
	url := local(t)
	operator := open(t, url)
	locker := adapt.NewLocker[gocron.Lock](open(t, url), nil)
	s, err := gocron.NewScheduler()
	wantError(t, err, nil)
	failed := make(chan error, 1)
	job := locker.Task("report", func(ctx context.Context) error {
		seize(ctx, t, operator, "report")
		<-ctx.Done()
		return nil
	})
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(job), gocron.WithName("report"),
		gocron.WithDistributedJobLocker(locker),
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
	wantError(t, err, nil)
	s.Start()
	wantError(t, <-failed, holdfast.ErrForced)
	wantError(t, s.Shutdown(), nil)
}

// Without a name, gocron names a job after its function, which is the same for all jobs of
// Task.
func TestGocronJobWithoutAName(t *testing.T) {
	locker := adapt.NewLocker[gocron.Lock](open(t, local(t)), nil)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	wantError(t, err, nil)
	failed := make(chan error, 1)
	job := locker.Task("report", func(context.Context) error { t.Error("it ran under a lock of another name"); return nil })
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(job),
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
	wantError(t, err, nil)
	s.Start()
	wantError(t, <-failed, adapt.ErrNotHeld)
	wantError(t, s.Shutdown(), nil)
}
