package sqlitelock_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// machine is a machine whose clocks the test sets.
type machine struct {
	bootID string // "": only a wall clock
	wall   atomic.Int64
	up     atomic.Int64
}

var today = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine(bootID string, wall time.Time, up time.Duration) *machine {
	m := &machine{bootID: bootID}
	m.wall.Store(wall.UnixNano())
	m.up.Store(int64(up))
	return m
}

func (m *machine) pass(d time.Duration) {
	m.wall.Add(int64(d))
	m.up.Add(int64(d))
}

func (m *machine) step(d time.Duration) { m.wall.Add(int64(d)) }

func (m *machine) Machine() sqlitelock.Machine {
	return sqlitelock.Machine{
		Wall: func() time.Time { return time.Unix(0, m.wall.Load()) },
		Boot: func() (string, error) { return m.bootID, nil },
		Uptime: func() time.Duration {
			if m.bootID == "" {
				panic("a system without such a clock was asked for it")
			}
			return time.Duration(m.up.Load())
		},
	}
}

// session opens the file, calls f and closes it again.
func session(t *testing.T, path string, m *machine, f func(s driver.Store)) {
	t.Helper()
	s, err := sqlitelock.OpenOn(t.Context(), path, nil, m.Machine())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, s.Close()) }()
	f(s)
}

func holder(t *testing.T, s driver.Store, resource string) (status driver.Status, held bool) {
	t.Helper()
	for st, err := range s.List(t.Context(), driver.Filter{Resource: resource}) {
		check(t, err)
		return st, true
	}
	return driver.Status{}, false
}

// Neither setting the wall clock nor opening the file later moves the store's clock.
func TestClockDoesNotStep(t *testing.T) {
	path := newFile(t)
	m := newMachine("one", today, time.Hour)
	s := openOn(t, path, nil, m.Machine())
	mustAcquire(t, s, "r", "a", time.Minute)
	for _, step := range []time.Duration{365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour} {
		m.step(step)
		session(t, path, m, func(other driver.Store) {
			for _, s := range []driver.Store{s, other} {
				if h, held := holder(t, s, "r"); !held || h.Left != time.Minute {
					t.Errorf("after a step of %v the hold has %v left", step, h.Left)
				}
			}
		})
	}
	m.pass(time.Minute)
	if h, held := holder(t, s, "r"); held {
		t.Errorf("the hold still has %v left after its TTL", h.Left)
	}
}

// After a reboot the clock continues from the last change if the wall clock is behind,
// and an earlier hold ends after its TTL, not when the wall clock is right again.
func TestClockAfterBoot(t *testing.T) {
	for name, c := range map[string]struct {
		wall time.Time
		left time.Duration
	}{
		"wall clock at 1970":     {time.Unix(0, 0), 10 * time.Minute},
		"wall clock right":       {today.Add(4 * time.Minute), 6 * time.Minute},
		"wall clock a year back": {today.AddDate(-1, 0, 0), 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			var token uint64
			session(t, path, newMachine("one", today, time.Hour), func(s driver.Store) {
				token = mustAcquire(t, s, "r", "a", 10*time.Minute).Token
			})
			m := newMachine("two", c.wall, 20*time.Second)
			session(t, path, m, func(s driver.Store) {
				if h, _ := holder(t, s, "r"); h.Left != c.left {
					t.Errorf("%v left, want %v", h.Left, c.left)
				}
				m.pass(c.left)
				if next := mustAcquire(t, s, "r", "b", time.Minute).Token; next <= token {
					t.Errorf("token %d after %d", next, token)
				}
			})
		})
	}
}

// Containers may have boot IDs of their own. A process in a container does not start a
// new clock, as after a boot, while other processes use the clock of the file.
func TestBootIDsOfContainers(t *testing.T) {
	for _, ids := range [][]string{{"one", "container a"}, {"container a", "one"}, {"container a", "container b", "one", "container c"}} {
		t.Run(strings.Join(ids, ", "), func(t *testing.T) {
			path := newFile(t)
			for i, id := range ids {
				step := time.Duration(i) * 2 * time.Hour
				s := openOn(t, path, nil, newMachine(id, today.Add(step), time.Hour).Machine())
				if i == 0 {
					mustAcquire(t, s, "r", "a", time.Hour)
				}
				if h, held := holder(t, s, "r"); !held || h.Left != time.Hour {
					t.Errorf("%s: after a step of %v the hold has %v left", id, step, h.Left)
				}
			}
		})
	}
}

// The boot is new if the file cannot be of this boot, or if both IDs are of the host.
func TestBootAfterContainer(t *testing.T) {
	after := 5 * time.Hour
	for name, c := range map[string]struct {
		before []string
		id     string
		up     time.Duration
	}{
		"soon after the boot": {[]string{"container a"}, "container b", time.Minute},
		"of the host":         {[]string{"container a", "one"}, "two", 10 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			for _, id := range c.before {
				session(t, path, newMachine(id, today, time.Hour), func(s driver.Store) {
					_, err := acquire(t.Context(), s, request("r", "a", after+time.Minute))
					if err != nil && !errors.Is(err, driver.ErrHeld) {
						t.Error(err)
					}
				})
			}
			session(t, path, newMachine(c.id, today.Add(after), c.up), func(s driver.Store) {
				if h, held := holder(t, s, "r"); !held || h.Left != time.Minute {
					t.Errorf("%v left, want a minute", h.Left)
				}
			})
		})
	}
}

// Tokens and versions rise although the record was deleted and after a reboot the wall
// clock is behind.
func TestFloor(t *testing.T) {
	for _, bootID := range []string{"two", ""} { // "": a system with only a wall clock
		path := newFile(t)
		m := newMachine("one", today, time.Hour)
		var token uint64
		session(t, path, m, func(s driver.Store) {
			ref := mustAcquire(t, s, "r", "a", time.Minute)
			mustRelease(t, s, ref)
			token = ref.Token
			m.pass(2 * time.Minute)
			swept, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Minute})
			check(t, err)
			if swept.Records != 1 {
				t.Fatalf("swept %+v", swept)
			}
		})
		session(t, path, newMachine(bootID, time.Unix(5, 0), 0), func(s driver.Store) {
			if next := mustAcquire(t, s, "r", "b", time.Minute).Token; next <= token {
				t.Errorf("boot %q: token %d after %d", bootID, next, token)
			}
		})
	}
}

// The wall clock was ahead when a record was deleted without the store, and has been set
// right. No hold stays alive until the clock gets there again, and tokens still rise,
// both for a process that opens the file later and for one that had it open.
func TestWallClockSetRightAfterDeletion(t *testing.T) {
	path := newFile(t)
	right := newMachine("", today, 0)
	early := openOn(t, path, nil, right.Machine())
	var last uint64
	session(t, path, newMachine("", today.AddDate(1, 0, 0), 0), func(s driver.Store) {
		ref := mustAcquire(t, s, "r", "a", time.Minute)
		mustRelease(t, s, ref)
		last = ref.Token
		rawExec(t, raw(t, path), "DELETE FROM resources")
	})
	late := openOn(t, path, nil, right.Machine())
	for _, s := range []driver.Store{late, early, late} {
		ref := mustAcquire(t, s, "r", "a", time.Minute)
		if ref.Token <= last {
			t.Errorf("token %d after %d", ref.Token, last)
		}
		last = ref.Token
		right.pass(time.Minute)
		for _, s := range []driver.Store{late, early} {
			if h, held := holder(t, s, "r"); held {
				t.Errorf("the hold still has %v left after its TTL", h.Left)
			}
		}
	}
}

// The numbers of a damaged row do not move the clock.
func TestFloorOfDamagedRow(t *testing.T) {
	path := newFile(t)
	s := openOn(t, path, nil, newMachine("one", today, 0).Machine())
	mustAcquire(t, s, "r", "a", time.Minute)
	db := raw(t, path)
	rawExec(t, db, "UPDATE resources SET token = ?", int64(1)<<60)
	rawExec(t, db, "DELETE FROM resources")
	if token := mustAcquire(t, s, "r", "b", time.Minute).Token; token > uint64(today.Add(time.Hour).UnixMicro()) {
		t.Errorf("token %d", token)
	}
}

// A damaged row does not move the clock of the next boot, which could then make no tokens
// for any resource.
func TestBootWithDamagedRow(t *testing.T) {
	path := newFile(t)
	session(t, path, newMachine("one", today, time.Hour), func(s driver.Store) {
		mustAcquire(t, s, "r", "a", time.Minute)
	})
	rawExec(t, raw(t, path), "UPDATE resources SET touched = ?", int64(1)<<60)
	for _, boot := range []string{"two", "container a"} {
		session(t, path, newMachine(boot, today, time.Minute), func(s driver.Store) {
			mustAcquire(t, s, boot, "b", time.Minute)
		})
	}
}

// Some systems have only a wall clock. Within a process it never goes back.
func TestWallClock(t *testing.T) {
	m := newMachine("", today, 0)
	s := openOn(t, newFile(t), nil, m.Machine())
	mustAcquire(t, s, "r", "a", time.Minute)
	m.step(-time.Hour)
	if h, _ := holder(t, s, "r"); h.Left != time.Minute {
		t.Errorf("%v left after a step back, want a minute", h.Left)
	}
	m.step(time.Hour + time.Minute)
	if _, held := holder(t, s, "r"); held {
		t.Error("still held after its TTL")
	}
}

// A wall clock whose time cannot be a token does not become the clock of the boot.
func TestWallClockBeyondTokens(t *testing.T) {
	path := newFile(t)
	m := newMachine("one", today.AddDate(230, 0, 0), time.Hour)
	s, err := sqlitelock.OpenOn(t.Context(), path, nil, m.Machine())
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "2256") {
		t.Errorf("open: %v, %v", s, err)
	}
	m.wall.Store(today.UnixNano())
	mustAcquire(t, openOn(t, path, nil, m.Machine()), "r", "a", time.Minute)
}

func TestNoClock(t *testing.T) {
	broken := errors.New("no such file")
	_, err := sqlitelock.OpenOn(t.Context(), newFile(t), nil, sqlitelock.Machine{
		Boot: func() (string, error) { return "", broken },
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "locks.db") {
		t.Errorf("open: %v", err)
	}
}
