package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// Clock is the clock of a server, with microseconds. It does not run unless it is set to, and
// starts ten years behind the machine's. A server sees a new time at once, also during a
// statement.
//
// Waiting in servers follows other rules. PostgreSQL's time-outs (lock_timeout, and
// deadlock_timeout with its check) use the machine's clock, but only while this clock is not
// ahead of it. Whatever sleeps until a time does so until the clock is set to that time:
// pg_sleep, and in Redis WAIT and all blocking commands.
type Clock struct {
	t      testing.TB
	folder string // of the server

	mu sync.Mutex
	at time.Time
}

// fakeTime is libfaketime, which makes a program see another time than the system's. It reads
// the time from a file whenever the program asks for it.
const fakeTime = "usr/lib/*/faketime/libfaketime.so.1"

// clocked returns the command of the server in the folder, with libfaketime if the folder has a
// clock.
func clocked(ctx context.Context, folder string, command []string) ([]string, error) {
	if !exists(clockFile(folder)) {
		return command, nil
	}
	root, _, err := debian(ctx, "libfaketime")
	if err != nil {
		return nil, err
	}
	library, err := filepath.Glob(filepath.Join(root, fakeTime))
	if err != nil || len(library) != 1 {
		return nil, fmt.Errorf("%s in %s: %q (%w)", fakeTime, root, library, err)
	}
	if strings.ContainsAny(library[0], " :") { // the loader takes these for the end of a name
		return nil, missing{fmt.Sprintf("a clock that can be set: %s cannot be loaded from a path with a space or a colon", library[0])}
	}
	return append([]string{
		// Redis's own allocator would read the time before libfaketime is ready, which would
		// then wait for memory forever. So the C library's allocator comes first.
		"env", "LD_PRELOAD=" + library[0] + ":libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + clockFile(folder), "FAKETIME_NO_CACHE=1", "TZ=UTC",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
	}, command...), nil
}

// newClock puts a clock into a folder, for a server that will use the folder.
func newClock(t testing.TB, folder string) *Clock {
	t.Helper()
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	c := &Clock{t: t, folder: folder}
	c.Set(time.Now().AddDate(-10, 0, 0))
	return c
}

func clockFile(folder string) string { return filepath.Join(folder, "clock") }

// setClock sets the clock of the server in the folder. The server never sees a half-written
// file.
func setClock(folder string, at time.Time) error {
	// libfaketime calculates with binary fractions: add half a microsecond.
	return writeClock(folder, at.UTC().Truncate(time.Microsecond).Add(500*time.Nanosecond).Format(clockFormat))
}

const clockFormat = "2006-01-02 15:04:05.0000000"

func writeClock(folder, text string) error {
	file := clockFile(folder)
	return errors.Join(writeUnprivileged(file+".new", []byte(text+"\n")), os.Rename(file+".new", file))
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Truncate(time.Microsecond)
}

// Advance moves the clock, backwards if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.at.Add(d))
}

// Set sets the clock.
func (c *Clock) Set(at time.Time) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(at)
}

// Run lets the clock run speed times as fast as the machine's until it is set again. Now does
// not show this.
func (c *Clock) Run(speed int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := writeClock(c.folder, fmt.Sprintf("@%s x%d", c.at.UTC().Format(clockFormat), speed)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Clock) set(at time.Time) {
	c.t.Helper()
	if err := setClock(c.folder, at); err != nil {
		c.t.Fatal(err)
	}
	c.at = at
}

// Drive gives a harness of the conformance suite control of the clock.
func (c *Clock) Drive(h *drivertest.Harness) *drivertest.Harness {
	h.Now, h.Advance = c.Now, c.Advance
	return h
}
