package adapt_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// leading calls Lead until the test ends it.
func leading(ctx context.Context, c *holdfast.Client, run func(ctx context.Context) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- adapt.Lead(ctx, c, "leader", nil, run) }()
	return ended
}

func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		terms, stopped := make(chan context.Context), errors.New("it was told to stop")
		ended := leading(ctx, mine, func(ctx context.Context) error {
			terms <- ctx
			<-ctx.Done()
			return stopped
		})
		for range 3 {
			term := <-terms
			seize(t, others, "leader")
			lost(t, term)
		}
		term := <-terms
		cancel()
		<-term.Done()
		is(t, <-ended, stopped) // the lock was held to the end
		if !free(t, others, "leader") {
			t.Error("the lock is held after Lead")
		}
	})
}

func TestLeadEndsWithRun(t *testing.T) {
	for _, want := range []error{nil, errors.New("the port is in use")} {
		synctest.Test(t, func(t *testing.T) {
			mine, others := pair(t)
			err := <-leading(t.Context(), mine, func(context.Context) error { return want })
			if !errors.Is(err, want) {
				t.Errorf("got error %v, want %v", err, want)
			}
			if !free(t, others, "leader") {
				t.Error("the lock is held after Lead")
			}
		})
	}
}

// Another leader may begin beside a function that ignores its ctx. In this process no other
// run begins.
func TestLeadWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		running, most := 0, 0
		terms := make(chan context.Context)
		ended := leading(ctx, mine, func(ctx context.Context) error {
			running++
			most = max(most, running)
			terms <- ctx
			<-ctx.Done()
			time.Sleep(time.Hour)
			running--
			return nil
		})
		term := <-terms
		seize(t, others, "leader")
		lost(t, term)
		time.Sleep(30 * time.Minute)
		if !free(t, others, "leader") {
			t.Error("Lead asks for the lock while its function runs")
		}
		<-terms
		cancel()
		is(t, <-ended, nil)
		if most != 1 {
			t.Errorf("%d functions ran at once", most)
		}
	})
}

func TestLeadStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		var terms atomic.Int32
		ended := leading(ctx, mine, func(ctx context.Context) error {
			terms.Add(1)
			return holdfast.HoldOf(ctx).Unlock(ctx)
		})
		synctest.Wait() // the first term has ended
		h, err := others.Lock(t.Context(), "leader", nil)
		is(t, err, nil)
		time.Sleep(time.Minute)
		before := terms.Load()
		is(t, h.Unlock(t.Context()), nil)
		time.Sleep(time.Minute)
		if after := terms.Load(); before == 0 || after == before {
			t.Errorf("%d terms before another leader, %d with those after", before, after)
		}
		cancel()
		is(t, <-ended, context.Canceled)
	})
}

func TestLeadWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others, cut := unreachable(t)
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan context.Context)
		cut(true)
		ended := leading(ctx, mine, func(ctx context.Context) error {
			terms <- ctx
			<-ctx.Done()
			if free(t, others, "leader") {
				t.Error("another leader began before the leader's ctx ended")
			}
			return nil
		})
		time.Sleep(time.Hour)
		cut(false)
		term := <-terms
		cut(true)
		lost(t, term)
		time.Sleep(time.Hour)
		cut(false)
		<-terms
		cancel()
		is(t, <-ended, nil)
	})
}

func TestLeadGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		never := func(context.Context) error { t.Error("run was called"); return nil }
		is(t, adapt.Lead(t.Context(), mine, "", nil, never), holdfast.ErrInvalid)

		h, err := others.Lock(t.Context(), "leader", nil)
		is(t, err, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is(t, adapt.Lead(ctx, mine, "leader", nil, never), context.DeadlineExceeded)
		is(t, h.Unlock(t.Context()), nil)

		// It would wait for its own lock forever.
		is(t, mine.Do(t.Context(), "leader", nil, func(ctx context.Context) error {
			return adapt.Lead(ctx, mine, "leader", nil, never)
		}), holdfast.ErrHeld)

		ended := leading(t.Context(), mine, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		is(t, mine.Close(), nil)
		is(t, <-ended, holdfast.ErrClosed)
		is(t, adapt.Lead(t.Context(), mine, "leader", nil, never), holdfast.ErrClosed)
	})
}

// A run that has released its lock itself has not lost it.
func TestLeadStepsDownWithAnError(t *testing.T) {
	failure := errors.New("the port is in use")
	for name, test := range map[string]struct {
		result func(ctx context.Context) error
		want   error // nil: another term
	}{
		"its own":               {func(context.Context) error { return failure }, failure},
		"that of another lock":  {func(context.Context) error { return holdfast.ErrInvalid }, holdfast.ErrInvalid},
		"none":                  {func(context.Context) error { return nil }, nil},
		"of the ctx":            {func(ctx context.Context) error { return ctx.Err() }, nil},
		"the cause of its end":  {context.Cause, nil},
		"of the ctx, explained": {func(ctx context.Context) error { return fmt.Errorf("serve: %w", ctx.Err()) }, nil},
	} {
		inBubble(t, name, func(t *testing.T) {
			mine, _ := pair(t)
			ctx, cancel := context.WithCancel(t.Context())
			terms := 0
			o := &adapt.LeadOptions{Report: func(err error) { t.Errorf("it reports %v", err) }}
			err := adapt.Lead(ctx, mine, "leader", o, func(ctx context.Context) error {
				if terms++; terms == 3 {
					cancel()
					return nil
				}
				is(t, holdfast.HoldOf(ctx).Unlock(ctx), nil)
				<-ctx.Done()
				return test.result(ctx)
			})
			is(t, err, test.want)
			if want := map[bool]int{true: 3, false: 1}[test.want == nil]; terms != want {
				t.Errorf("there were %d terms", terms)
			}
		})
	}
}

// Lead reports the error of a term whose lock was lost, and each failed attempt.
func TestLeadReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others, cut := unreachable(t)
		ctx, cancel := context.WithCancel(t.Context())
		failure := errors.New("the port is in use")
		reports, terms := make(chan error), make(chan context.Context)
		ended := make(chan error)
		go func() {
			o := &adapt.LeadOptions{Report: func(err error) { reports <- err }}
			ended <- adapt.Lead(ctx, mine, "leader", o, func(ctx context.Context) error {
				terms <- ctx
				<-ctx.Done()
				return failure
			})
		}()
		<-terms
		seize(t, others, "leader")
		err := <-reports
		is(t, err, holdfast.ErrForced)
		is(t, err, failure)
		<-terms
		cut(true)
		err = <-reports
		is(t, err, holdfast.ErrUnreachable)
		is(t, err, failure)
		for range 3 {
			if err := <-reports; errors.Is(err, holdfast.ErrLost) || errors.Is(err, failure) {
				t.Errorf("an attempt is reported as %v", err)
			}
		}
		cut(false)
		term := <-terms
		cancel()
		<-term.Done()
		is(t, <-ended, failure)
	})
}

// A loss at the end of the program is reported too.
func TestLeadEndsInALostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := adapt.Lead(ctx, mine, "leader", nil, func(ctx context.Context) error {
			seize(t, others, "leader")
			lost(t, ctx)
			cancel()
			return errors.New("the port is in use")
		})
		is(t, err, holdfast.ErrForced)
	})
}

// A store that somebody must fix gets fixed sooner or later: waiters continue to wait.
func TestUnusableStore(t *testing.T) {
	for _, name := range []string{"Lead", "Mutex"} {
		inBubble(t, name, func(t *testing.T) {
			mine, _, set := failing(t)
			set(func(drivertest.Call) drivertest.Fault {
				return drivertest.Fault{Err: holdfast.ErrUnusable, LoseRequest: true}
			})
			time.AfterFunc(time.Hour, func() { set(works) })
			began := time.Now()
			is(t, waiting[name](t.Context(), mine, func() {}), nil)
			if took := time.Since(began); took < time.Hour || took > time.Hour+time.Minute {
				t.Errorf("it waited for %v", took)
			}
		})
	}
}

func TestLeadPanics(t *testing.T) {
	mine, others := pair(t)
	defer func() {
		if r := recover(); r != "oops" {
			t.Errorf("recovered %v", r)
		}
		if !free(t, others, "leader") {
			t.Error("the lock is held after the panic")
		}
	}()
	_ = adapt.Lead(t.Context(), mine, "leader", nil, func(context.Context) error { panic("oops") })
}

// No other instance leads, or runs the job, while Close gives a function time to return.
func TestCloseAndTTL(t *testing.T) {
	for name, run := range map[string]func(*holdfast.Client, *holdfast.LockOptions, func(context.Context)){
		"Lead": func(c *holdfast.Client, o *holdfast.LockOptions, fn func(context.Context)) {
			_ = adapt.Lead(context.Background(), c, "r", &adapt.LeadOptions{Lock: o}, func(ctx context.Context) error {
				fn(ctx)
				return nil
			})
		},
		"Job": func(c *holdfast.Client, o *holdfast.LockOptions, fn func(context.Context)) {
			adapt.Job(context.Background(), c, "r", &adapt.JobOptions{Lock: o}, fn)()
		},
		"Migrate": func(c *holdfast.Client, o *holdfast.LockOptions, fn func(context.Context)) {
			_ = adapt.NewMigrations(c, "r", o).Migrate(context.Background(), func(ctx context.Context) error {
				fn(ctx)
				return nil
			})
		},
	} {
		for _, ttl := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
			inBubble(t, fmt.Sprint(name, " ", ttl), func(t *testing.T) {
				mine, others := pair(t)
				var ended time.Time
				done := make(chan struct{})
				go func() {
					defer close(done)
					run(mine, &holdfast.LockOptions{TTL: ttl}, func(ctx context.Context) {
						<-ctx.Done()
						time.Sleep(2900 * time.Millisecond)
						ended = time.Now()
					})
				}()
				time.Sleep(10 * time.Second)
				go mine.Close()
				h, err := others.Lock(t.Context(), "r", nil)
				granted := time.Now()
				is(t, err, nil)
				<-done
				if granted != ended {
					t.Errorf("granted to another %v after the function's end", granted.Sub(ended))
				}
				is(t, h.Unlock(t.Context()), nil)
			})
		}
	}
}
