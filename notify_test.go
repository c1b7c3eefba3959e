package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// hooked is a slog.Handler whose Handle and Enabled call functions.
type hooked struct {
	handle, enabled func()
}

func (h hooked) Handle(context.Context, slog.Record) error { h.handle(); return nil }
func (h hooked) Enabled(context.Context, slog.Level) bool  { h.enabled(); return true }
func (h hooked) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hooked) WithGroup(string) slog.Handler             { return h }

// starting returns a Start function of a Trace that calls do first.
func starting[I any](do func()) func(context.Context, I) context.Context {
	return func(ctx context.Context, _ I) context.Context {
		do()
		return ctx
	}
}

// fullTrace returns a Trace whose functions all call do, except ClientStart, which New waits
// for.
func fullTrace(do func()) *holdfast.Trace {
	return &holdfast.Trace{
		AttemptStart: starting[holdfast.AttemptInfo](do),
		AttemptEnd:   func(context.Context, holdfast.AttemptInfo) { do() },
		WaitStart:    starting[holdfast.WaitInfo](do),
		WaitEnd:      func(context.Context, holdfast.WaitInfo) { do() },
		HoldStart:    starting[holdfast.HoldInfo](do),
		HoldEnd:      func(context.Context, holdfast.HoldInfo) { do() },
		Renewed:      func(context.Context, holdfast.CallInfo) { do() },
		Released:     func(context.Context, holdfast.CallInfo) { do() },
		Failed:       func(context.Context, holdfast.FailInfo) { do() },
	}
}

// everyHook returns, for each kind of user code that a Client calls, Options in which only
// that code is set, and calls do.
func everyHook(do func()) map[string]*holdfast.Options {
	none := func() {}
	hooks := map[string]*holdfast.Options{
		"Logger":         {Logger: slog.New(hooked{do, none})},
		"Logger.Enabled": {Logger: slog.New(hooked{none, do})},
	}
	full := reflect.ValueOf(fullTrace(do)).Elem()
	for i := range full.NumField() {
		if hook := full.Field(i); !hook.IsNil() {
			one := new(holdfast.Trace)
			reflect.ValueOf(one).Elem().Field(i).Set(hook)
			hooks[full.Type().Field(i).Name] = &holdfast.Options{Trace: one}
		}
	}
	return hooks
}

// User code never costs a lock, even if it does not return: locks are granted, renewed and
// released, and the contexts of lost holds end before the resource is granted to another
// client.
func TestUserCodeDelaysNobody(t *testing.T) {
	for name := range everyHook(nil) {
		inBubble(t, name, func(t *testing.T) {
			block := make(chan struct{})
			defer close(block)
			opts := everyHook(func() { <-block })[name]
			opts.TTL = 10 * time.Second
			var failing, hanging atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				switch {
				case c.Op == drivertest.Renew && hanging.Load():
					return drivertest.Fault{HoldRequest: block}
				case c.Op == drivertest.Renew && failing.Load():
					// Renewals fail in every other second: if every other call failed, all
					// failures could be calls for one batch.
					return drivertest.Fault{LoseRequest: time.Now().Second()%2 == 0}
				}
				return drivertest.Fault{}
			})
			c, d := unswept(f, opts), newClient(t, store, nil)
			var holds []*holdfast.Hold
			for i := range 100 {
				holds = append(holds, lock(t, c, fmt.Sprint(i), nil))
			}
			waiting := locking(t.Context(), c, "0", nil)
			synctest.Wait()
			unlock(t, holds[0])
			unlock(t, granted(t, waiting))
			holds = holds[1:]
			failing.Store(true)
			time.Sleep(time.Minute)
			for _, h := range holds {
				alive(t, h)
			}
			// One by force, so that there is a call to make before the others are lost.
			if _, err := d.Admin().ForceRelease(t.Context(), "1", holdfast.HoldID{}); err != nil {
				t.Fatal(err)
			}
			mustEnd(t, holds[0], time.Minute, holdfast.ErrForced)
			holds = holds[1:]

			hanging.Store(true)
			var all sync.WaitGroup
			for _, h := range holds {
				all.Go(func() {
					if _, err := d.Lock(t.Context(), h.Resource(), nil); err != nil {
						t.Error(err)
					} else if h.Context().Err() == nil {
						t.Errorf("%q was granted to another while the context was alive", h.Resource())
					}
				})
			}
			all.Wait()
			left := lock(t, c, "left", nil)
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
			mustEnd(t, left, time.Millisecond, holdfast.ErrClosed)
			mustBeFree(t, store, "left")
		})
	}
}

// Contexts that end together end at once, however many calls the Trace gets.
func TestContextsEndTogether(t *testing.T) {
	for name := range everyHook(nil) {
		inBubble(t, name, func(t *testing.T) {
			opts := everyHook(func() { time.Sleep(20 * time.Millisecond) })[name]
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldRequest: make(chan struct{})}))
			c := newClient(t, f, opts)
			ends := make(chan time.Time, 100)
			for i := range cap(ends) {
				h := lock(t, c, fmt.Sprint(i), nil)
				context.AfterFunc(h.Context(), func() { ends <- time.Now() })
			}
			first := <-ends
			for range cap(ends) - 1 {
				if end := <-ends; !end.Equal(first) {
					t.Fatalf("one context ended %v after another", end.Sub(first))
				}
			}
		})
	}
}

// The calls come in order, once each, before Close returns.
func TestTellsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		tell := func(format string, args ...any) {
			time.Sleep(time.Millisecond)
			told = append(told, fmt.Sprintf(format, args...)) // calls come from one goroutine at a time
		}
		c := unswept(memlock.New(nil), &holdfast.Options{Trace: &holdfast.Trace{
			HoldStart: func(ctx context.Context, info holdfast.HoldInfo) context.Context {
				tell("acquired %s", info.Hold.Resource())
				return ctx
			},
			Released: func(_ context.Context, info holdfast.CallInfo) { tell("released %s", info.Hold.Resource()) },
		}})
		var want []string
		for i := range 500 {
			unlock(t, lock(t, c, fmt.Sprint(i), nil))
			want = append(want, fmt.Sprint("acquired ", i), fmt.Sprint("released ", i))
		}
		lock(t, c, "last", nil)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if want = append(want, "acquired last", "released last"); !slices.Equal(told, want) {
			t.Errorf("the calls were %q", told)
		}
	})
}

// A Trace that never returns does not use more and more memory: calls beyond the limit are
// left out, and a warning says so.
func TestTooMuchToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		block := make(chan struct{})
		acquired := 0
		c := unswept(memlock.New(nil), &holdfast.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Trace:  &holdfast.Trace{HoldStart: starting[holdfast.HoldInfo](func() { <-block; acquired++ })},
		})
		const locks = 30_000
		for i := range locks {
			unlock(t, lock(t, c, "r", nil))
			if i == 0 {
				synctest.Wait() // the Trace blocks from here on
			}
		}
		close(block)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if acquired < 1_000 || acquired >= locks {
			t.Errorf("the Trace got %d of %d locks", acquired, locks)
		}
		if strings.Count(log.String(), "calls were left out") != 1 {
			t.Errorf("the log is\n%s", &log)
		}
	})
}

// Calls of Renew that fail again and again do not delay the Client's own renewals.
func TestFailingRenewDoesNotStarveKeepAlive(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 30 * time.Second, holdfast.Forever} {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c := newClient(t, faulty(t, store, delayed(drivertest.Renew, 20*time.Millisecond)), nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl})
			for range 2000 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				if err := h.Renew(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Renew: %v", err)
				}
				cancel()
				time.Sleep(40 * time.Millisecond)
			}
			alive(t, h)
		})
	}
}
