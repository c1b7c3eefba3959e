package sqlitelock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// While another process has the write lock: reading goes on, a wait ends with
// its ctx or with the time-out, and what was not sent stays not sent.
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
	for range 5 { // one at SQLite's lock, the others behind it
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

// A lock that is freed in time is waited for.
func TestBusyEnds(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
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
	case <-time.After(50 * time.Millisecond):
	}
	locker.end()
	if err := <-done; err != nil {
		t.Error(err)
	}
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

func TestDeadContext(t *testing.T) {
	s := open(t, newFile(t))
	ref := mustAcquire(t, s, "r", "a", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := acquire(ctx, s, request("x", "a", time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire: %v", err)
	}
	if err := release(ctx, s, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("release: %v", err)
	}
	if _, err := s.(driver.Watcher).Watch(ctx, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v", err)
	}
	if _, held := holder(t, s, "r"); !held {
		t.Error("released by a dead ctx")
	}
	if _, held := holder(t, s, "x"); held {
		t.Error("acquired by a dead ctx")
	}
}
