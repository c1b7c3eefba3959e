package adapt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// atLeast has the adapters with AtLeast. They run the job "r" once and return the reported
// error.
var atLeast = map[string]func(ctx context.Context, c *holdfast.Client, d time.Duration, o *holdfast.LockOptions, fn func()) error{
	"Job": func(ctx context.Context, c *holdfast.Client, d time.Duration, o *holdfast.LockOptions, fn func()) (err error) {
		opts := &adapt.JobOptions{AtLeast: d, Lock: o, Report: func(failure error) { err = failure }}
		adapt.Job(ctx, c, "r", opts, func(context.Context) { fn() })()
		return err
	},
	"Locker": func(ctx context.Context, c *holdfast.Client, d time.Duration, o *holdfast.LockOptions, fn func()) (err error) {
		opts := &adapt.LockerOptions{AtLeast: d, Lock: o, Report: func(failure error) { err = failure }}
		lock, failure := adapt.NewLocker[adapt.Unlocker](c, opts).Lock(ctx, "r")
		if failure != nil {
			return failure
		}
		fn()
		_ = lock.Unlock(ctx) // gocron ignores it too
		return err
	},
}

// deaf loses the replies to renewals, which the store has applied.
func deaf(c drivertest.Call) drivertest.Fault {
	return drivertest.Fault{LoseReply: c.Op == drivertest.Renew}
}

// almost is how much too early a lock may end: stores and the Client truncate to
// milliseconds.
const almost = 2 * time.Millisecond

// An outage at the end of the job that does not lose the lock does not shorten AtLeast.
func TestAtLeastInAnOutage(t *testing.T) {
	for name, run := range atLeast {
		for kind, fault := range map[string]func(drivertest.Call) drivertest.Fault{"fails": fails, "hangs": hangs} {
			for _, outage := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 4 * time.Second} {
				inBubble(t, fmt.Sprint(name, " ", kind, " for ", outage), func(t *testing.T) {
					mine, others, set := failing(t)
					began := time.Now()
					is(t, run(t.Context(), mine, 50*time.Second, &holdfast.LockOptions{TTL: 10 * time.Second}, func() {
						set(fault)
						time.AfterFunc(outage, func() { set(works) })
					}), nil)
					if took := time.Since(began); took > outage+6*time.Second {
						t.Errorf("it took %v", took)
					}
					time.Sleep(time.Until(began.Add(50*time.Second - almost)))
					if free(t, others, "r") {
						t.Error("the resource was free before the end of AtLeast")
					}
					time.Sleep(2 * almost)
					if !free(t, others, "r") {
						t.Error("the resource is still locked")
					}
				})
			}
		}
	}
}

// A longer outage loses the lock, and the run then ends. Renewals that the store has applied
// without a reply stay in effect.
func TestAtLeastIsLost(t *testing.T) {
	for name, run := range atLeast {
		for kind, test := range map[string]struct {
			fault func(drivertest.Call) drivertest.Fault
			until time.Duration // until when it is locked
		}{"fails": {fails, 10 * time.Second}, "hangs": {hangs, 10 * time.Second}, "replies are lost": {deaf, 50 * time.Second}} {
			inBubble(t, name+", "+kind, func(t *testing.T) {
				mine, others, set := failing(t)
				began := time.Now()
				err := run(t.Context(), mine, 50*time.Second, &holdfast.LockOptions{TTL: 10 * time.Second}, func() { set(test.fault) })
				is(t, err, holdfast.ErrUnreachable)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				set(works)
				time.Sleep(time.Until(began.Add(test.until - almost)))
				if free(t, others, "r") {
					t.Error("the resource was free before the end of AtLeast")
				}
				time.Sleep(10 * almost)
				if !free(t, others, "r") {
					t.Error("the resource is still locked")
				}
			})
		}
	}
}

// The store may confirm AtLeast only after it has passed: the lock was held for as long.
func TestAtLeastIsOver(t *testing.T) {
	for name, run := range atLeast {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			mine, others := newClient(t, onlyTTL{store, 10 * time.Second}), newClient(t, store)
			began := time.Now()
			is(t, run(t.Context(), mine, time.Minute, &holdfast.LockOptions{TTL: 10 * time.Second}, func() {}), nil)
			// The last 10 s pass without a renewal.
			if took := time.Since(began); took < 45*time.Second || took > time.Minute {
				t.Errorf("it took %v", took)
			}
			time.Sleep(time.Until(began.Add(time.Minute - almost)))
			if free(t, others, "r") {
				t.Error("the resource was free before the end of AtLeast")
			}
			time.Sleep(2 * almost)
			if !free(t, others, "r") {
				t.Error("the resource is still locked")
			}
		})
	}
}

// onlyTTL is a store that renews only with the given TTL.
type onlyTTL struct {
	driver.Store
	ttl time.Duration
}

func (s onlyTTL) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.TTL != s.ttl {
			return nil, errors.New("no answer")
		}
	}
	return s.Store.Renew(ctx, qs)
}

// A program that ends waits for a store that does not answer: 5 s for AtLeast, and then 5 s
// for the release, which Job's TryDo repeats.
func TestAtLeastAtAShutdown(t *testing.T) {
	for name, run := range atLeast {
		for _, before := range []bool{true, false} {
			for kind, fault := range map[string]func(drivertest.Call) drivertest.Fault{"fails": fails, "hangs": hangs} {
				inBubble(t, fmt.Sprint(name, " ", kind, " ", before), func(t *testing.T) {
					mine, _, set := failing(t)
					ctx, cancel := context.WithCancel(t.Context())
					began := time.Now()
					if !before {
						began = began.Add(3 * time.Second)
						time.AfterFunc(3*time.Second, cancel)
					}
					err := run(ctx, mine, 10*time.Minute, &holdfast.LockOptions{TTL: 5 * time.Minute}, func() {
						set(fault)
						if before {
							cancel()
						}
					})
					if err == nil || errors.Is(err, holdfast.ErrLost) {
						t.Errorf("got error %v", err)
					}
					if took := time.Since(began); took < 5*time.Second || took > 15*time.Second+time.Millisecond {
						t.Errorf("it took %v", took)
					}
					set(works)
				})
			}
		}
	}
}

func TestAtLeastAndClose(t *testing.T) {
	for name, run := range atLeast {
		for kind, fault := range map[string]func(drivertest.Call) drivertest.Fault{"fails": fails, "hangs": hangs} {
			inBubble(t, name+" "+kind, func(t *testing.T) {
				mine, _, set := failing(t)
				ended := make(chan error, 1)
				go func() {
					ended <- run(t.Context(), mine, 10*time.Minute, &holdfast.LockOptions{TTL: 5 * time.Minute}, func() { set(fault) })
				}()
				time.Sleep(20 * time.Second)
				began := time.Now()
				_ = mine.Close() // it cannot release the lock
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("Close took %v", took)
				}
				if err := <-ended; err == nil {
					t.Error("no error was reported")
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the run ended %v after Close", took)
				}
				set(works)
			})
		}
	}
}
