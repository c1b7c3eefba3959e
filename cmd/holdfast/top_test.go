//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
)

// Where top draws its rows.
const (
	firstRow  = 3  // title, message, names of the columns
	belowRows = 10 // the details of a hold, and the help
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

func startTop(t *testing.T, url string, columns, lines int) *display {
	t.Helper()
	return onTerminal(t, columns, lines, "holdfast", "top", "--store", url, "--interval", "100ms")
}

func TestTopShowsWhatIsHeld(t *testing.T) {
	url, other := storeOf(t)
	first := take(t, other, "backup", holdfast.LockOptions{Owner: "ada", Host: "web1", Comment: "before the\x1b[31m upgrade"})
	c := startTop(t, url, 200, 30)
	c.shows("RESOURCE", "backup", "ada", "web1", "exclusive", `before the\x1b[31m upgrade`, "59m5",
		fmt.Sprint(first.Token()), "lock ID "+first.LockID(), "never renewed", "takeover delay 0s", "holds: 1",
		"holdfast unlock --force --store "+url+" \\", " backup\n")

	// Others take and release.
	second := take(t, other, "annual report", holdfast.LockOptions{Owner: "bob", TTL: 10 * time.Minute, TakeoverDelay: time.Minute})
	c.shows("annual report", "bob", "9m5", "holds: 2")
	if above, below := c.find("annual report"), c.find("backup  "); above > below {
		t.Errorf("not sorted by resource:\n%s", c.text())
	}
	// The cursor stays on its hold, wherever that is.
	c.shows("lock ID " + first.LockID())
	c.send("\x1b[A")
	c.shows("lock ID "+second.LockID(), "takeover delay 1m0s", " 'annual report'\n")
	give(t, first)
	c.hides("backup")
	c.shows("holds: 1", "lock ID "+second.LockID())
	give(t, second)
	c.hides("annual report")
	c.shows("nothing is held")
	c.hides("lock ID")
	c.quit()
}

// Those that wait stand below what they wait for, until they hold it.
func TestTopShowsWaiters(t *testing.T) {
	url, other := storeOf(t)
	first := take(t, other, "backup", holdfast.LockOptions{Owner: "ada"})
	take(t, other, "crawl", holdfast.LockOptions{Owner: "cy"})
	c := startTop(t, url, 200, 30)
	c.shows("holds: 2, by")
	granted := make(chan error, 1)
	go func() {
		_, err := other.Lock(t.Context(), "backup", &holdfast.LockOptions{Owner: "bob", Host: "web2", Fair: true})
		granted <- err
	}()
	c.shows("holds: 2, waiters: 1, by", "  1. backup", "bob", "web2", "1 waits", "in turn")
	if held, waits, next := c.find("backup  "), c.find("  1. backup"), c.find("crawl"); held < 0 || waits != held+1 || next != waits+1 {
		t.Errorf("the waiter is not below its resource:\n%s", c.text())
	}
	c.send("\x1b[B")
	c.shows("backup  exclusive, position 1 of 1", "lock ID", "owner bob  host web2", "holdfast explain --store "+url+" backup")
	give(t, first)
	check(t, <-granted)
	c.hides("waiters")
	c.hides("1. backup")
	c.quit()
}

// find returns the line with the text, or -1.
func (c *display) find(text string) int {
	for i, line := range c.lines() {
		if strings.Contains(line, text) {
			return i
		}
	}
	return -1
}

// The time left counts down between two looks at the store.
func TestTopCountsDown(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	c := onTerminal(t, 200, 30, "holdfast", "top", "--store", url, "--interval", "1h")
	minutes := regexp.MustCompile(`r +(59m[0-9]+s)`)
	c.shows("59m5")
	seen := minutes.FindString(c.text())
	c.await("the time left to change", func() bool { return minutes.FindString(c.text()) != seen })
	// It looks when it is told to.
	take(t, other, "s", holdfast.LockOptions{})
	c.send("r")
	c.shows("holds: 2")
	c.quit()
}

func TestTopSortsAndFilters(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "b", holdfast.LockOptions{TTL: 2 * time.Hour, Owner: "ada"})
	take(t, other, "c", holdfast.LockOptions{TTL: 3 * time.Hour, Owner: "Bob"})
	take(t, other, "a", holdfast.LockOptions{TTL: 4 * time.Hour, Owner: "bobby"})
	c := startTop(t, url, 200, 30)
	c.shows("holds: 3, by resource")
	order := func() string {
		var names []byte
		for _, line := range c.lines()[firstRow : firstRow+3] {
			if line == "" {
				line = "-"
			}
			names = append(names, line[0])
		}
		return string(names)
	}
	for _, want := range []string{"abc", "bca", "bca", "abc"} {
		c.await("the order "+want, func() bool { return order() == want })
		c.send("s")
	}
	c.shows("by time left") // after the fourth s
	c.send("/BOB")
	c.await("two rows", func() bool { return order() == "ca-" })
	c.shows(`2 of 3 holds, with "BOB"`, "/BOB")
	c.send("bq")
	c.shows("0 of 3 holds")
	c.send("\x7fy\r")
	c.shows(`1 of 3 holds, with "BOBby"`, "q: quit")
	c.send("\x1b")
	c.shows("holds: 3")
	c.send("/\x03") // the one key that quits also while a text is typed
	c.quits(0)
}

func TestTopScrollsAndResizes(t *testing.T) {
	url, other := storeOf(t)
	for i := range 60 {
		take(t, other, fmt.Sprintf("resource-%02d", i), holdfast.LockOptions{Comment: "no room for this"})
	}
	c := startTop(t, url, 200, 30)
	c.shows("holds: 60", "no room for this")
	const rows = 30 - firstRow - belowRows
	last := func() string { return c.lines()[firstRow+rows-1] }
	c.await("full screen", func() bool { return strings.HasPrefix(last(), fmt.Sprintf("resource-%02d", rows-1)) })
	c.send("\x1b[F") // end
	c.await("the last row", func() bool { return strings.HasPrefix(last(), "resource-59") })
	c.send("\x1b[5~") // page up
	c.shows(fmt.Sprintf(" resource-%02d\n", 59-rows))
	c.send("\x1b[H") // home
	c.shows("\nresource-00", " resource-00\n")

	c.resize(40, 10) // neither details nor room for all columns
	c.await("six rows", func() bool {
		return strings.HasPrefix(c.lines()[8], "resource-05") && strings.HasPrefix(c.lines()[9], "arrows")
	})
	c.hides("lock ID")
	c.hides("no room")
	c.shows("59m5")
	c.resize(200, 30)
	c.shows("lock ID", "no room for this")
	c.resize(3, 2)
	c.resize(200, 30)
	c.shows("lock ID")
	c.quit()
}

func TestTopGoesOnWithoutAnswer(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	c := startTop(t, url, 200, 30)
	c.shows("holds: 1")
	file := strings.TrimPrefix(url, "sqlite://")
	check(t, os.Rename(file, file+".aside"))
	c.shows("nothing is held")
	check(t, os.Mkdir(file, 0o700))
	c.shows("no answer, trying again: ", " is a directory")
	check(t, os.Remove(file))
	check(t, os.Rename(file+".aside", file))
	c.shows("holds: 1")
	c.hides("no answer")
	c.quit()

	c = startTop(t, "sqlite:"+filepath.Dir(file), 200, 30)
	c.quits(69)
	c.shows("holdfast: store cannot be used: SQLite file")

	c = startTop(t, "sqlite:"+filepath.Dir(file)+"/no/body/made/this.db", 200, 30)
	c.shows("nothing is held")
	c.quit()
	if _, err := os.Stat(filepath.Dir(file) + "/no"); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestScreenEndsWithSignals(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	for _, args := range [][]string{{"top"}, {"status", "--watch"}} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(fmt.Sprint(args[0], " ", sig), func(t *testing.T) {
				c := onTerminal(t, 100, 30, "holdfast", append(args, "--store", url)...)
				c.shows("RESOURCE", "\nr ")
				check(t, c.cmd.Process.Signal(sig))
				c.quits(0)
			})
		}
	}
}

// Ctrl-Z gives the terminal back until the shell continues the job.
func TestTopStops(t *testing.T) {
	url, other := storeOf(t)
	take(t, other, "r", holdfast.LockOptions{})
	c := onTerminal(t, 100, 30, "sh", "-mc",
		`holdfast top --store "$1" --interval 100ms; echo "stopped with $?"; read again; fg >/dev/null; echo "ended with $?"`, "sh", url)
	c.shows("holds: 1")
	c.send("\x1a")
	c.shows("stopped with 1") // 128 and the number of the signal, which differs
	c.restored()
	take(t, other, "s", holdfast.LockOptions{})
	c.send("\n")
	c.shows("holds: 2")
	c.send("q")
	c.shows("ended with 0")
	c.quits(0)
}

// Where no shell could continue it, Ctrl-Z does nothing.
func TestTopWithoutShell(t *testing.T) {
	url, other := storeOf(t)
	c := startTop(t, url, 100, 30)
	c.shows("nothing is held")
	c.send("\x1a")
	take(t, other, "r", holdfast.LockOptions{})
	c.shows("holds: 1")
	c.quit()
}

// panicky panics while it has the screen.
func panicky() {
	_ = screen.Use(func(s tcell.Screen) error {
		screen.Line(s, 0, "about to panic", screen.Strong)
		s.Show()
		panic("of the test")
	})
}

func TestPanicGivesTheTerminalBack(t *testing.T) {
	c := onTerminal(t, 100, 30, "panicky")
	c.quits(2)
	c.shows("panic: of the test", "goroutine ")
}

func TestTopWithoutTerminal(t *testing.T) {
	for name, line := range map[string]string{
		"stdin":  `holdfast top </dev/null`,
		"stdout": `holdfast top | cat; exit 64`,
		"dumb":   `TERM=dumb holdfast top`,
	} {
		t.Run(name, func(t *testing.T) {
			c := onTerminal(t, 100, 30, "sh", "-c", line)
			c.shows("holdfast: top needs a terminal", "holdfast status")
			<-c.ended
			if got := c.cmd.ProcessState.ExitCode(); got != 64 {
				t.Errorf("status %d, want 64", got)
			}
		})
	}
}

func TestWatchRedraws(t *testing.T) {
	url, other := storeOf(t)
	c := onTerminal(t, 200, 10, "holdfast", "status", "--watch", "--interval", "100ms", "--store", url)
	c.shows("locks.db  20", "nothing is held")
	first := take(t, other, "r-00", holdfast.LockOptions{Comment: "why"})
	c.shows("RESOURCE", "\nr-00 ", "why")
	for i := 1; i < 20; i++ {
		take(t, other, fmt.Sprintf("r-%02d", i), holdfast.LockOptions{})
	}
	c.shows("r-05", "and 14 more; holdfast top shows all")
	if n := len(regexp.MustCompile(`RESOURCE`).FindAllString(c.text(), -1)); n != 1 {
		t.Errorf("%d tables:\n%s", n, c.text())
	}
	give(t, first)
	c.hides("r-00")
	c.resize(200, 40)
	c.shows("r-19")
	c.quit()
}
