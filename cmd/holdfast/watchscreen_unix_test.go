package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// storeOf returns the URL of a new store in a file, and another process's client
// of it.
func storeOf(t *testing.T) (string, *holdfast.Client) {
	t.Helper()
	url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	client, err := holdfast.Open(t.Context(), url, nil)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return url, client
}

func take(t *testing.T, c *holdfast.Client, resource string, opts holdfast.LockOptions) *holdfast.Hold {
	t.Helper()
	if opts.TTL == 0 {
		opts.TTL = time.Hour
	}
	h, err := c.TryLock(t.Context(), resource, &opts)
	check(t, err)
	return h
}

func give(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	check(t, h.Unlock(t.Context()))
}

func startWatch(t *testing.T, url string, columns, lines int, interval string) *display {
	t.Helper()
	return onTerminal(t, columns, lines, "holdfast", "status", "--watch", "--store", url, "--interval", interval)
}

func TestWatchRedraws(t *testing.T) {
	url, other := storeOf(t)
	c := startWatch(t, url, 200, 10, "100ms")
	c.shows("locks.db  20", "nothing is held")
	first := take(t, other, "r-00", holdfast.LockOptions{Comment: "before the\x1b[31m upgrade"})
	c.shows("RESOURCE", "\nr-00 ", `before the\x1b[31m upgrade`)
	for i := 1; i < 20; i++ {
		take(t, other, fmt.Sprintf("r-%02d", i), holdfast.LockOptions{})
	}
	c.shows("r-04", "and 15 more; holdfast status shows all")
	if n := strings.Count(c.text(), "RESOURCE"); n != 1 {
		t.Errorf("%d tables:\n%s", n, c.text())
	}
	give(t, first)
	c.hides("r-00")
	c.quit()
}

// Those that wait stand below what they wait for, until they hold it.
func TestWatchShowsWaiters(t *testing.T) {
	url, other := storeOf(t)
	first := take(t, other, "backup", holdfast.LockOptions{Owner: "ada"})
	c := startWatch(t, url, 200, 30, "100ms")
	granted := make(chan error, 1)
	go func() {
		_, err := other.Lock(t.Context(), "backup", &holdfast.LockOptions{Owner: "bob", Host: "web2", Fair: true})
		granted <- err
	}()
	c.matches(`\nbackup  .* ada .*\n  1\. backup .* bob +web2 .*in turn$`)
	give(t, first)
	check(t, <-granted)
	c.hides("1. backup")
	c.quit()
}

// A new size of the window is drawn at once.
func TestWatchResizes(t *testing.T) {
	url, other := storeOf(t)
	for i := range 20 {
		take(t, other, fmt.Sprintf("r-%02d", i), holdfast.LockOptions{Comment: "no room for this"})
	}
	c := startWatch(t, url, 200, 30, "1h")
	c.shows("r-19", "no room for this")
	c.resize(40, 10)
	c.shows("and 15 more", "...")
	c.hides("no room")
	c.resize(3, 2)
	c.resize(200, 30)
	c.shows("r-19", "no room for this")
	c.quit()
}

// With too few columns for all of the table, the IDs go before what is said of holds and waiters.
func TestWatchOnNarrowTerminal(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{Owner: "ada", Host: "web1", Comment: "nightly"})
	c := startWatch(t, url, 80, 24, "1h")
	c.matches(`\nRESOURCE +MODE +OWNER +HOST +LEFT +HELD +COMMENT\nr +exclusive +ada +web1 +\S+ +\S+ +nightly$`)
	c.quit()
}

func TestWatchGoesOnWithoutAnswer(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	c := startWatch(t, url, 200, 30, "100ms")
	c.shows("\nr ")
	file := strings.TrimPrefix(url, "sqlite://")
	check(t, os.Rename(file, file+".aside"))
	c.shows("nothing is held")
	check(t, os.Mkdir(file, 0o700))
	c.shows("no answer, trying again: ", " is a directory", "nothing is held")
	check(t, os.Remove(file))
	check(t, os.Rename(file+".aside", file))
	c.shows("\nr ")
	c.hides("no answer")
	c.quit()

	c = startWatch(t, "sqlite:"+filepath.Dir(file), 200, 30, "100ms")
	c.quits(69)
	c.shows("holdfast: store cannot be used: SQLite file")
}

func TestWatchEndsWithSignals(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			c := startWatch(t, url, 100, 30, "2s")
			c.shows("RESOURCE", "\nr ")
			check(t, c.cmd.Process.Signal(sig))
			c.quits(0)
		})
	}
}

// Ctrl-Z leaves the terminal to the shell until that continues the job.
func TestWatchStops(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	c := onTerminal(t, 100, 30, "sh", "-mc",
		`holdfast status --watch --store "$1" --interval 100ms; echo "stopped with $?"; read again; fg >/dev/null; echo "ended with $?"`, "sh", url)
	c.shows("\nr ")
	c.send("\x1a")
	c.shows("stopped with 1") // 128 and the number of the signal, which differs
	c.restored()
	take(t, other, "s", holdfast.LockOptions{})
	c.send("\n")
	c.shows("\ns ")
	c.hides("stopped with")
	c.send("\x03")
	c.shows("ended with 0")
	c.quits(0)
}
