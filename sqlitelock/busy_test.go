package sqlitelock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// While another process has the write lock, reads continue, a wait ends with its ctx or
// with the time-out, and unsent changes are not made later.
func TestBusy(t *testing.T) {
	path := newFile(t)
	s := openOn(t, path, &sqlitelock.Options{BusyTimeout: 300 * time.Millisecond}, sqlitelock.Machine{})
	mustAcquire(t, s, "held", "a", time.Hour)
	locker := start(t, "lock", path)
	locker.hear("locked")

	if _, err := acquire(t.Context(), s, request("held", "b", time.Hour)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a refusal needs no write lock: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 5 { // one waits for SQLite's lock, the others behind it
		group.Go(func() {
			_, err := acquire(ctx, s, request("free", "a", time.Hour))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled while the file is busy: %v", err)
			}
		})
	}
	time.AfterFunc(30*time.Millisecond, cancel)
	begin := time.Now()
	group.Wait()
	if d := time.Since(begin); d > 250*time.Millisecond {
		t.Errorf("it took %v to notice the end of ctx", d)
	}

	begin = time.Now()
	_, err := acquire(t.Context(), s, request("free", "a", time.Hour))
	if err == nil || errors.Is(err, driver.ErrUnusable) || errors.Is(err, driver.ErrHeld) {
		t.Errorf("busy for longer than the time-out: %v", err)
	}
	if d := time.Since(begin); d < 300*time.Millisecond || d > 2*time.Second {
		t.Errorf("the time-out of 300ms took %v", d)
	}

	locker.end()
	if h, held := holder(t, s, "free"); held {
		t.Errorf("a change that was given up was made: %+v", h)
	}
	mustAcquire(t, s, "free", "b", time.Hour)
}

// A refusal waits a moment for the write lock, to give its waiter a place, but no longer
// than its caller. In that time it is decided once, and delays no other request.
func TestBusyPlaces(t *testing.T) {
	const most = 100 * time.Millisecond
	for name, c := range map[string]struct {
		freed    time.Duration // when the other connection ends its change; 0: after the answer
		change   string        // what it changes
		deadline time.Duration
		granted  bool
		position int
		waiters  int
		decided  int
		took     time.Duration
	}{
		"freed late":      {freed: most - time.Millisecond, waiters: 2, decided: 2, took: most - time.Millisecond},
		"freed soon":      {freed: 1, waiters: 2, decided: 2},
		"not freed":       {position: driver.NoPlace, waiters: 1, decided: 1, took: most},
		"deadline":        {deadline: most / 4, position: driver.NoPlace, waiters: 1, decided: 1, took: most / 4},
		"the holder left": {freed: most / 2, change: "UPDATE resources SET holds = NULL", granted: true, decided: 2, took: most / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := newFile(t)
				b := &deciding{Backend: openBackend(t, path, sqlitelock.Machine{})}
				s := base.New(b)
				t.Cleanup(func() { check(t, s.Close()) })
				mustAcquire(t, s, "r", "holder", time.Hour)
				_, _ = acquire(t.Context(), s, placed("early", false))
				b.decided = 0
				other := raw(t, path)
				rawExec(t, other, "BEGIN IMMEDIATE")
				if c.change != "" {
					rawExec(t, other, c.change)
				}
				if c.freed != 0 {
					time.AfterFunc(c.freed, func() {
						if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil {
							t.Error(err)
						}
					})
				}
				ctx := t.Context()
				if c.deadline != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begin := time.Now()
				var group sync.WaitGroup
				group.Go(func() {
					time.Sleep(most / 8)
					q := request("r", "passer", time.Hour)
					if _, err := acquire(t.Context(), s, q); !errors.Is(err, driver.ErrHeld) || time.Since(begin) != most/8 {
						t.Errorf("another request in that time: %v after %v", err, time.Since(begin)-most/8)
					}
				})
				_, err := acquire(ctx, s, placed("waiter", true))
				took := time.Since(begin)
				group.Wait()
				var held *driver.HeldError
				switch {
				case c.granted:
					if err != nil {
						t.Errorf("not granted: %v", err)
					}
				case !errors.As(err, &held):
					t.Fatalf("not refused: %v", err)
				case held.Position != c.position || held.Waiters != c.waiters || len(held.Holders) != 1:
					t.Errorf("position %d, %d waiters, want %d and %d", held.Position, held.Waiters, c.position, c.waiters)
				}
				if took < c.took || took > c.took+time.Millisecond || b.decided != c.decided {
					t.Errorf("decided %d times in %v, want %d times in %v", b.decided, took, c.decided, c.took)
				}
			})
		})
	}
}

// placed returns a request with a place.
func placed(lockID string, fair bool) driver.AcquireRequest {
	q := request("r", lockID, time.Hour)
	q.Place, q.Fair = driver.NewPlaceID(), fair
	return q
}

// deciding counts the decisions about requests with a place.
type deciding struct {
	base.Backend
	decided int
}

func (d *deciding) Update(ctx context.Context, us []base.Update, urgent bool) error {
	own := slices.Clone(us)
	for i := range own {
		own[i].Decide = func(e base.Entry) base.Change {
			ch := us[i].Decide(e)
			if ch.Courtesy || ch.Action == base.Put {
				d.decided++
			}
			return ch
		}
	}
	err := d.Backend.Update(ctx, own, urgent)
	for i := range own {
		us[i].Err = own[i].Err
	}
	return err
}

// Close does not wait for other processes.
func TestCloseWhileBusy(t *testing.T) {
	path := newFile(t)
	s, err := sqlitelock.Open(t.Context(), path, &sqlitelock.Options{BusyTimeout: time.Minute})
	check(t, err)
	locker := start(t, "lock", path)
	locker.hear("locked")
	done := make(chan error, 1)
	go func() {
		_, err := acquire(t.Context(), s, request("r", "a", time.Hour))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	begin := time.Now()
	check(t, s.Close())
	if err := <-done; err == nil {
		t.Error("acquired on a closed store")
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("close took %v", d)
	}
	locker.end()
}
