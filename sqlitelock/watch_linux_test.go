package sqlitelock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// resting opens the file. rests receives a value each time the watcher has stopped
// looking; then only the system's report of a write to the file wakes it.
func resting(t *testing.T, path string) (s driver.Store, rests <-chan struct{}) {
	t.Helper()
	ch := make(chan struct{}, 1)
	s = openOn(t, path, nil, sqlitelock.Machine{LongRests: true, At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointRest {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}})
	return s, ch
}

// A release after a silence is signalled at once: the watcher has stopped looking, and
// the system reports the write. With FULL, the commit waits for the disk between the
// write and the moment at which other processes see it.
func TestWatchAfterRest(t *testing.T) {
	for name, opts := range map[string]*sqlitelock.Options{"normal": nil, "full": {FullSync: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			s, rests := resting(t, path)
			other := openOn(t, path, opts, sqlitelock.Machine{})
			for range 3 {
				ref := mustAcquire(t, other, "r", "a", time.Hour)
				signals, end := watch(t, s, "r")
				await(t, rests, "rest")
				mustRelease(t, other, ref)
				await(t, signals, "release after a silence")
				end()
			}
		})
	}
}

// Irrelevant changes keep the watcher awake for a while. Then it rests again and can
// still be woken.
func TestWatchRestsAgain(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s, rests := resting(t, path)
	other := open(t, path)
	ref := mustAcquire(t, other, "r", "a", time.Hour)
	signals, _ := watch(t, s, "r")
	for range 2 {
		await(t, rests, "rest")
		mustRelease(t, other, mustAcquire(t, other, "another", "a", time.Hour))
	}
	await(t, rests, "rest after irrelevant changes")
	mustRelease(t, other, ref)
	await(t, signals, "release")
}

// Close does not wait until the watcher's next look.
func TestCloseAtRest(t *testing.T) {
	t.Parallel()
	s, rests := resting(t, newFile(t))
	signals, _ := watch(t, s, "r")
	await(t, rests, "rest")
	closed := make(chan struct{}, 1)
	go func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		closed <- struct{}{}
	}()
	await(t, closed, "Close")
	if _, open := <-signals; open {
		t.Error("a signal after Close")
	}
}

// On a system without reports of writes, the watcher never stops looking.
func TestWatchWithoutHints(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	var rested atomic.Bool
	s := openOn(t, path, nil, sqlitelock.Machine{NoHints: true, At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointRest {
			rested.Store(true)
		}
	}})
	told, rests := resting(t, path)
	other := open(t, path)
	ref := mustAcquire(t, other, "r", "a", time.Hour)
	signals, _ := watch(t, s, "r")
	_, _ = watch(t, told, "r")
	await(t, rests, "rest of a watcher with hints") // the silence is long enough for a watcher with reports to rest
	mustRelease(t, other, ref)
	await(t, signals, "release")
	if rested.Load() {
		t.Error("the watcher rested without hints")
	}
}
