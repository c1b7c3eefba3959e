package sqlitelock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func watch(t *testing.T, s driver.Store, resource string) (signals <-chan struct{}, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ch, err := s.(driver.Watcher).Watch(ctx, resource)
	if err != nil {
		t.Fatal(err)
	}
	return ch, cancel
}

func await(t *testing.T, signals <-chan struct{}, what string) {
	t.Helper()
	select {
	case _, open := <-signals:
		if !open {
			t.Fatalf("%s: the channel was closed", what)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no signal", what)
	}
}

// silent checks that there was no signal, after a later signal of another resource has
// arrived: by then all earlier changes of the file were looked at.
func silent(t *testing.T, s, other driver.Store, signals <-chan struct{}, what string) {
	t.Helper()
	marker := "marker of " + what
	ref := mustAcquire(t, other, marker, "m", time.Hour)
	seen, end := watch(t, s, marker)
	defer end()
	mustRelease(t, other, ref)
	await(t, seen, marker)
	select {
	case <-signals:
		t.Errorf("a signal because of %s", what)
	default:
	}
}

// Two handles on one file are as strange to one another as two processes.
func TestWatch(t *testing.T) {
	path := newFile(t)
	watching, acting := open(t, path), open(t, path)
	for name, other := range map[string]driver.Store{"same store": watching, "another": acting} {
		t.Run(name, func(t *testing.T) {
			r := "r of " + name
			before, _ := watch(t, watching, r) // no record yet
			ref := mustAcquire(t, other, r, "a", time.Hour)
			signals, _ := watch(t, watching, r)
			silent(t, watching, other, before, "an acquire")

			if _, err := acquire(t.Context(), other, request(r, "b", time.Hour)); err == nil {
				t.Fatal("granted twice")
			}
			rs, err := other.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
			if err != nil || rs[0].Err != nil {
				t.Fatal(err, rs)
			}
			check(t, release(t.Context(), other, driver.HoldRef{Resource: r, LockID: "nobody"}))
			silent(t, watching, other, signals, "refusal, renewal and a release of nothing")

			mustRelease(t, other, ref)
			await(t, signals, "release")
			await(t, before, "release, seen from before the record was there")
			silent(t, watching, other, signals, "one release that was signalled")

			// Many while nobody listens are one signal.
			for range 10 {
				mustRelease(t, other, mustAcquire(t, other, r, "a", time.Hour))
			}
			silent(t, watching, other, make(chan struct{}), "nothing")
			await(t, signals, "ten releases")
			silent(t, watching, other, signals, "ten releases that were signalled")
		})
	}
}

// A hold that a sweep dropped is worth another try.
func TestWatchSweep(t *testing.T) {
	path := newFile(t)
	m := newMachine("one", today, 0)
	s, other := openOn(t, path, nil, m.Machine()), openOn(t, path, nil, m.Machine())
	mustAcquire(t, other, "r", "a", time.Minute)
	signals, _ := watch(t, s, "r")
	m.pass(2 * time.Minute)
	_, err := other.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
	check(t, err)
	await(t, signals, "sweep of a hold")
}

// A release after Watch returned is never missed, whatever the goroutine that looks at the
// file is doing at that moment. After each release its file falls silent, so that a missed
// signal stays missed.
func TestWatchMissesNothing(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		path := newFile(t)
		s, other := open(t, path), open(t, path)
		watch(t, s, "always watched") // so that the goroutine is at work when the others come
		group.Go(func() {
			for i := range 100 {
				if err := releasedWhileWatched(t.Context(), s, other, fmt.Sprint("r", i%3)); err != nil {
					t.Errorf("release %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func releasedWhileWatched(ctx context.Context, s, other driver.Store, resource string) error {
	ref, err := acquire(ctx, other, request(resource, "a", time.Hour))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, err := s.(driver.Watcher).Watch(ctx, resource)
	if err != nil {
		return err
	}
	if err := release(ctx, other, ref); err != nil {
		return err
	}
	select {
	case <-signals:
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("no signal")
	}
}

// Another process releases and falls silent, again and again.
func TestWatchOtherProcess(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	c := start(t, "release", path)
	var took []time.Duration
	for range 100 {
		c.hear("held")
		signals, end := watch(t, s, "r")
		c.say("release")
		await(t, signals, "release by another process")
		seen := time.Now()
		if !c.out.Scan() {
			t.Fatal("the child ended")
		}
		ns, err := strconv.ParseInt(c.out.Text(), 10, 64)
		check(t, err)
		took = append(took, seen.Sub(time.Unix(0, ns)))
		end()
		c.say("on")
	}
	c.hear("held")
	c.end()
	slices.Sort(took)
	t.Logf("from release to signal: median %v, the slowest of 100 %v", took[50], took[99])
	// A bound for any machine: on one that is busy a few take as long as it takes to
	// get to run. Benchmarks have the target.
	if took[50] > 250*time.Millisecond {
		t.Errorf("signals take %v", took[50])
	}
}

// There is one goroutine for all watchers, and none without watchers.
func TestWatchEnds(t *testing.T) {
	s := open(t, newFile(t))
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 100 {
		for range 3 {
			if _, err := s.(driver.Watcher).Watch(ctx, fmt.Sprint("r", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	signals, _ := watch(t, s, "r1")
	mustRelease(t, s, mustAcquire(t, s, "r1", "a", time.Hour))
	await(t, signals, "release after others stopped watching")
}
