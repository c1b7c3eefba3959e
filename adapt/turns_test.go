package adapt_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
)

// adapter runs fn once under the lock of "r". It returns an error if it does not call fn.
type adapter func(ctx context.Context, c *holdfast.Client, fn func()) error

// waiting has the adapters that wait for the lock, and skipping the others.
var (
	waiting = map[string]adapter{
		"Lead": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return adapt.Lead(ctx, c, "r", nil, func(context.Context) error {
				fn()
				cancel() // there is no second term
				return nil
			})
		},
		"Migrate": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			return adapt.NewMigrations(c, "r", nil).Migrate(ctx, func(context.Context) error { fn(); return nil })
		},
		"Migrations": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			m := adapt.NewMigrations(c, "r", nil)
			if err := m.Lock(ctx, nil); err != nil {
				return err
			}
			fn()
			return m.Unlock(ctx, nil)
		},
		"Mutex": func(ctx context.Context, c *holdfast.Client, fn func()) (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = r.(error)
				}
			}()
			m := adapt.NewMutex(ctx, c, "r", nil)
			m.Lock()
			fn()
			m.Unlock()
			return nil
		},
		"Names": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			n := adapt.NewNames(c, nil)
			if err := n.Lock(ctx, "r"); err != nil {
				return err
			}
			fn()
			return n.Unlock(ctx, "r")
		},
	}
	skipping = map[string]adapter{
		"Elector": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			e := adapt.NewElector(c, "r", nil)
			if err := e.IsLeader(ctx); err != nil {
				return err
			}
			return e.Task(func(context.Context) error { fn(); return nil })(ctx)
		},
		"Job": func(ctx context.Context, c *holdfast.Client, fn func()) (err error) {
			o := &adapt.JobOptions{Report: func(failure error) { err = failure }}
			adapt.Job(ctx, c, "r", o, func(context.Context) { fn() })()
			return err
		},
		"Locker": func(ctx context.Context, c *holdfast.Client, fn func()) error {
			l := adapt.NewLocker[adapt.Unlocker](c, nil)
			lock, err := l.Lock(ctx, "r")
			if err != nil {
				return err
			}
			_ = l.Task("r", func(context.Context) error { fn(); return nil })(ctx)
			return lock.Unlock(ctx)
		},
	}
)

// A function that ignores the loss of its lock runs beside no other function in its process,
// whichever adapter calls that.
func TestTurns(t *testing.T) {
	all := maps.Clone(waiting)
	maps.Copy(all, skipping)
	for first, one := range all {
		for second, other := range all {
			inBubble(t, first+", "+second, func(t *testing.T) {
				mine, others, cut := unreachable(t)
				running, runs := 0, 0
				fn := func() {
					if running++; running > 1 {
						t.Error("two functions run at once")
					}
					runs++
					time.Sleep(3 * time.Minute)
					running--
				}
				ended := make(chan error, 1)
				go func() { ended <- one(t.Context(), mine, fn) }()
				synctest.Wait()
				cut(true)
				time.Sleep(time.Minute)
				cut(false)
				if !free(t, others, "r") {
					t.Error("the lock was not lost")
				}
				err := other(t.Context(), mine, fn)
				is(t, <-ended, holdfast.ErrLost)
				if waiting[second] != nil {
					is(t, err, nil)
					if runs != 2 {
						t.Errorf("there were %d runs", runs)
					}
					return
				}
				is(t, err, holdfast.ErrHeld)
				is(t, other(t.Context(), mine, fn), nil)
			})
		}
	}
}

// Waits within the process end with their ctx and with the Client.
func TestTurnsEnd(t *testing.T) {
	for name, lock := range waiting {
		inBubble(t, name, func(t *testing.T) {
			mine, _ := pair(t)
			never := func() { t.Error("the function ran beside another one") }
			n := adapt.NewNames(mine, nil)
			is(t, n.Lock(t.Context(), "r"), nil)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, holdfast.ErrLost) // another lock's loss
			defer cancel()
			err := lock(ctx, mine, never)
			is(t, err, context.DeadlineExceeded)
			if errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), holdfast.ErrLost.Error()) {
				t.Errorf("error %v does not have the cause in its text, or matches it", err)
			}
			is(t, err, holdfast.ErrHeld)

			ended := make(chan error)
			go func() { ended <- lock(context.WithoutCancel(t.Context()), mine, never) }()
			synctest.Wait()
			began := time.Now()
			is(t, mine.Close(), nil)
			is(t, <-ended, holdfast.ErrClosed)
			if took := time.Since(began); took != 0 {
				t.Errorf("the caller waited for %v after Close", took)
			}
			is(t, n.Unlock(t.Context(), "r"), holdfast.ErrClosed)
		})
	}
}

// A caller that works under the lock would wait for itself.
func TestTurnWithinATurn(t *testing.T) {
	mine, _ := pair(t)
	for name, lock := range waiting {
		err := adapt.NewMigrations(mine, "r", nil).Migrate(t.Context(), func(ctx context.Context) error {
			return lock(ctx, mine, func() { t.Errorf("%s called its function", name) })
		})
		is(t, err, holdfast.ErrHeld)
		err = adapt.NewMigrations(mine, "r", nil).Migrate(t.Context(), func(ctx context.Context) error {
			return mine.Do(ctx, "another", nil, func(ctx context.Context) error {
				return lock(ctx, mine, func() { t.Errorf("%s ran under another lock", name) })
			})
		})
		is(t, err, holdfast.ErrHeld)
	}
}

// Callers get the turn in the order in which they came.
func TestTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _ := pair(t)
		var order []int
		done := make(chan error)
		for i := range 10 {
			go func() {
				done <- waiting["Names"](t.Context(), mine, func() { order = append(order, i); time.Sleep(time.Second) })
			}()
			synctest.Wait()
		}
		for range 10 {
			is(t, <-done, nil)
		}
		if !slices.IsSorted(order) {
			t.Errorf("the order is %v", order)
		}
	})
}

// A wait during an outage also ends with the Client, in an attempt or between two.
func TestPausesEnd(t *testing.T) {
	for _, name := range []string{"Lead", "Mutex"} {
		for at := range 60 {
			synctest.Test(t, func(t *testing.T) {
				mine, _, cut := unreachable(t)
				cut(true)
				ended := make(chan error)
				go func() { ended <- waiting[name](t.Context(), mine, func() { t.Error("the function ran") }) }()
				time.Sleep(time.Duration(at) * time.Second)
				began := time.Now()
				go func() { _ = mine.Close() }()
				is(t, <-ended, holdfast.ErrClosed)
				if took := time.Since(began); took != 0 {
					t.Errorf("%s waited for %v after Close", name, took)
				}
			})
		}
	}
}
