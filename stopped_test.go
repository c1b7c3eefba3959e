package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// A stopped process, or one on a sleeping machine, hears no answer. That says nothing about
// the store.
func TestStoppedWhileItWaits(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"30s": 0, "4s": 4 * time.Second} {
		for _, inPause := range []bool{false, true} {
			if inPause {
				name += ", between attempts"
			}
			inBubble(t, name, func(t *testing.T) {
				store := memlock.New(nil)
				machine := newSleeper()
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					switch {
					case c.Op != drivertest.Acquire || c.N < 3 || c.N > 5:
						return drivertest.Fault{}
					case !inPause:
						machine.sleep(time.Minute) // when this attempt fails
					case c.N == 4:
						time.AfterFunc(time.Nanosecond, func() { machine.sleep(time.Minute) })
					}
					return drivertest.Fault{LoseRequest: true}
				})
				c, d := newClient(t, f, holdfast.WithClock(machine.clock, nil)), newClient(t, store, nil)
				h := lock(t, d, "r", nil)
				mine := locking(t.Context(), c, "r", &holdfast.LockOptions{TTL: ttl})
				time.Sleep(20 * time.Second)
				unlock(t, h)
				unlock(t, granted(t, mine))
			})
		}
	}
}

// halting is a store whose first n releases are not answered for a minute, whatever their
// context: the process is stopped.
type halting struct {
	driver.Store
	stops *int
}

func (s halting) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if *s.stops > 0 {
		*s.stops--
		time.Sleep(time.Minute)
		return nil, errors.New("connection reset")
	}
	return s.Store.Release(ctx, qs)
}

// The same holds for releases. But a store that always hangs ends them.
func TestStoppedWhileItReleases(t *testing.T) {
	for name, release := range map[string]func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error{
		"Unlock": func(ctx context.Context, _ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(ctx) },
		"ReleaseID": func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ReleaseID(ctx, h.LockID())
			return err
		},
	} {
		for stops, ends := range map[int]bool{1: true, 9: false} {
			inBubble(t, name, func(t *testing.T) {
				store, left := memlock.New(nil), stops
				c := newClient(t, halting{store, &left}, nil)
				h := lock(t, c, "r", &holdfast.LockOptions{TTL: time.Hour})
				switch err := release(t.Context(), c, h); {
				case ends && err != nil:
					t.Error(err)
				case ends:
					mustBeFree(t, store, "r")
				case err == nil:
					t.Error("a halting store has released the hold")
				}
				left = 0
			})
		}
	}
}

// Locks with a short TTL that join and leave a wait do not use up the others' patience with a
// silent store.
func TestSilentBesideShortLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{HoldReply: t.Context().Done()}
		})
		c := newClient(t, f, nil)
		began := time.Now()
		mine := locking(t.Context(), c, "r", nil)
		for range 10 {
			time.Sleep(5 * time.Second)
			locking(t.Context(), c, "r", &holdfast.LockOptions{TTL: holdfast.MinTTL})
		}
		r := <-mine
		if r.err == nil || r.at.Sub(began) > holdfast.DefaultTTL+11*time.Second {
			t.Errorf("gave up after %v: %v", r.at.Sub(began), r.err)
		}
	})
}
