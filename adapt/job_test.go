package adapt_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/memlock"
)

// job makes a Job whose reports are kept.
func job(ctx context.Context, c *holdfast.Client, atLeast time.Duration, fn func(ctx context.Context)) (run func(), reports *[]error) {
	reports = new([]error)
	o := &adapt.JobOptions{AtLeast: atLeast, Report: func(err error) { *reports = append(*reports, err) }}
	return adapt.Job(ctx, c, "r", o, fn), reports
}

func TestJobRunsOnOneInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		runs := 0
		there, skipped := job(t.Context(), others, 0, func(context.Context) { t.Error("the job ran twice") })
		here, reports := job(t.Context(), mine, 0, func(ctx context.Context) {
			runs++
			if h := holdfast.HoldOf(ctx); h == nil || h.Token() == 0 {
				t.Errorf("the job's hold is %v", h)
			}
			there()
		})
		here()
		here()
		if runs != 2 || len(*reports) != 0 {
			t.Errorf("%d runs, reports %v", runs, *reports)
		}
		if len(*skipped) != 2 {
			t.Fatalf("the other instance reports %v", *skipped)
		}
		is(t, (*skipped)[0], holdfast.ErrHeld)
		if !free(t, others, "r") {
			t.Error("the lock is held after the job")
		}
	})
}

// The resource stays locked for AtLeast from the start, whatever the TTL, and no longer.
func TestAtLeast(t *testing.T) {
	for name, test := range map[string]struct {
		options        holdfast.Options
		atLeast, takes time.Duration
		blocked        time.Duration // after the job
	}{
		"longer than the TTL":     {holdfast.Options{}, 55 * time.Second, 2 * time.Second, 53 * time.Second},
		"much longer":             {holdfast.Options{}, 20 * time.Hour, time.Minute, 20*time.Hour - time.Minute},
		"shorter than any TTL":    {holdfast.Options{TTL: time.Second}, 100 * time.Millisecond, 0, 100 * time.Millisecond},
		"of no valid TTL":         {holdfast.Options{TTL: 2 * time.Second, Margin: time.Second}, 1200 * time.Millisecond, 600 * time.Millisecond, 600 * time.Millisecond},
		"the job takes long":      {holdfast.Options{}, 5 * time.Second, time.Minute, 0},
		"the job takes as long":   {holdfast.Options{}, 5 * time.Second, 5 * time.Second, 0},
		"a little is left":        {holdfast.Options{}, time.Minute, time.Minute - time.Millisecond, time.Millisecond},
		"it is not set":           {holdfast.Options{}, 0, time.Second, 0},
		"a third of the TTL left": {holdfast.Options{TTL: 3 * time.Second}, 3500 * time.Millisecond, 900 * time.Millisecond, 2600 * time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			test.options.NoSweep = true
			mine, others := holdfast.New(store, &test.options), newClient(t, store)
			defer mine.Close()
			run, reports := job(t.Context(), mine, test.atLeast, func(context.Context) { time.Sleep(test.takes) })
			run()
			if len(*reports) != 0 {
				t.Errorf("reports %v", *reports)
			}
			if test.blocked > 0 {
				time.Sleep(test.blocked - time.Millisecond)
				if free(t, others, "r") {
					t.Error("the resource was free too early")
				}
				time.Sleep(2 * time.Millisecond)
			}
			if !free(t, others, "r") {
				t.Error("the resource is still locked")
			}
		})
	}
}

func TestJobLosesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		run, reports := job(t.Context(), mine, time.Hour, func(ctx context.Context) {
			seize(t, others, "r")
			lost(t, ctx)
		})
		run()
		if len(*reports) != 1 || !errors.Is((*reports)[0], holdfast.ErrLost) || !errors.Is((*reports)[0], holdfast.ErrForced) {
			t.Errorf("reports %v", *reports)
		}
		if !free(t, others, "r") {
			t.Error("AtLeast kept the resource of a lost lock")
		}
	})
}

func TestJobWithoutTheStore(t *testing.T) {
	inBubble(t, "at the start", func(t *testing.T) {
		mine, _, cut := unreachable(t)
		cut(true)
		run, reports := job(t.Context(), mine, 0, func(context.Context) { t.Error("the job ran") })
		began := time.Now()
		run()
		if took := time.Since(began); len(*reports) != 1 || errors.Is((*reports)[0], holdfast.ErrHeld) || took > 6*time.Second {
			t.Errorf("reports %v after %v", *reports, took)
		}
	})
	inBubble(t, "while it runs", func(t *testing.T) {
		mine, others, cut := unreachable(t)
		run, reports := job(t.Context(), mine, 0, func(ctx context.Context) {
			cut(true)
			lost(t, ctx)
			if free(t, others, "r") {
				t.Error("another instance was granted the lock before the job's ctx ended")
			}
		})
		run()
		cut(false)
		if len(*reports) != 1 || !errors.Is((*reports)[0], holdfast.ErrUnreachable) {
			t.Errorf("reports %v", *reports)
		}
	})
	inBubble(t, "at the end", func(t *testing.T) {
		mine, others, cut := unreachable(t)
		run, reports := job(t.Context(), mine, time.Minute, func(context.Context) { cut(true) })
		run()
		cut(false)
		if len(*reports) != 1 {
			t.Errorf("reports %v", *reports)
		}
		if free(t, others, "r") {
			t.Error("the resource was free before the end of AtLeast")
		}
		time.Sleep(time.Minute)
		if !free(t, others, "r") {
			t.Error("the resource is still locked")
		}
	})
}

func TestJobEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		run, reports := job(ctx, mine, time.Minute, func(ctx context.Context) {
			cancel()
			<-ctx.Done()
		})
		run()
		if len(*reports) != 0 {
			t.Errorf("reports %v", *reports)
		}
		if free(t, others, "r") {
			t.Error("AtLeast ended with the program")
		}
		run()
		if len(*reports) != 1 || !errors.Is((*reports)[0], context.Canceled) {
			t.Errorf("reports %v", *reports)
		}
	})
}

// Close waits for the job before it releases the lock.
func TestJobAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		closed := make(chan error)
		run, reports := job(t.Context(), mine, time.Minute, func(ctx context.Context) {
			go func() { closed <- mine.Close() }()
			<-ctx.Done()
			time.Sleep(2 * time.Second) // it needs time to stop
			if free(t, others, "r") {
				t.Error("another instance gets the lock beside the job")
			}
		})
		run()
		is(t, <-closed, nil)
		if len(*reports) != 1 || !errors.Is((*reports)[0], holdfast.ErrClosed) {
			t.Errorf("reports %v", *reports)
		}
	})
}

func TestJobPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		run, _ := job(t.Context(), mine, time.Minute, func(context.Context) { panic("oops") })
		func() {
			defer func() {
				if r := recover(); r != "oops" {
					t.Errorf("recovered %v", r)
				}
			}()
			run()
		}()
		time.Sleep(59 * time.Second)
		if free(t, others, "r") {
			t.Error("the resource was free too early")
		}
		time.Sleep(2 * time.Second)
		if !free(t, others, "r") {
			t.Error("the resource is still locked")
		}
	})
}

func TestInvalidAtLeast(t *testing.T) {
	mine, _ := pair(t)
	for name, make := range map[string]func(time.Duration){
		"Job": func(d time.Duration) {
			adapt.Job(t.Context(), mine, "r", &adapt.JobOptions{AtLeast: d}, func(context.Context) {})
		},
		"Locker": func(d time.Duration) {
			adapt.NewLocker[adapt.Unlocker](mine, &adapt.LockerOptions{AtLeast: d})
		},
	} {
		for _, d := range []time.Duration{-1, holdfast.Forever} {
			func() {
				defer func() {
					if err, ok := recover().(error); !ok || !errors.Is(err, holdfast.ErrInvalid) {
						t.Errorf("%s with AtLeast %v: recovered %v", name, d, err)
					}
				}()
				make(d)
			}()
		}
	}
}
