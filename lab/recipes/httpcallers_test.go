//go:build linux

package recipes

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/internal/need"
)

// caller is a language whose programs lock over HTTP with the code of docs/http.md.
type caller struct {
	tools   []string
	lock    string // the recipe with the lock
	use     string // the recipe that holds the lock while ./nightly.sh runs
	program []string
	// steps is a program with two arguments, a name and a file. While it holds the lock it
	// writes its name into the file witness, once at the beginning and once for each line of
	// the file, until a line says end.
	steps string
}

var callers = map[string]caller{
	"bash": {
		tools: []string{"bash", "curl"}, lock: "locked.sh", use: "nightly-locked.sh", program: []string{"bash"},
		steps: `
if [ -z "$HOLDFAST_DIR" ]; then exec ./locked.sh nightly bash "$0" "$@"; fi
exec 3< "$2"
step=first
until [ "$step" = end ]; do
	if [ "$step" ]; then
		held || exit 1
		echo "$1" >> witness
	fi
	sleep 0.02
	read -r step <&3
done
`},
}

// shortTTL replaces the page's TTL of 30 s with one for tests.
var shortTTL = strings.NewReplacer("30_000", "6_000", "TTL_MS:-30000", "TTL_MS:-6000")

// calling is a stage with a server for its store, and the code of a caller.
type calling struct {
	*stage
	caller
	server *run
	url    string
}

// onCallers runs the test for each language.
func onCallers(t *testing.T, test func(c *calling)) {
	t.Helper()
	t.Parallel()
	for name, lang := range callers {
		t.Run(name, func(t *testing.T) {
			for _, tool := range append([]string{"setpriv"}, lang.tools...) {
				if _, err := exec.LookPath(tool); err != nil {
					need.Lacks(t, tool, tool+" is missing")
				}
			}
			t.Parallel()
			s := set(t)
			c := &calling{stage: s, caller: lang}
			c.program = []string{s.tool(lang.program[0])}
			code := recipe(t, lang.lock)
			short := shortTTL.Replace(code)
			if code == short {
				t.Fatalf("%s has no TTL", lang.lock)
			}
			s.script(lang.lock, short)
			s.script(lang.use, recipe(t, lang.use))
			s.script("steps", lang.steps)
			s.command("nightly.sh")
			c.server, c.url = s.serve()
			s.env = append(s.env, "HOLDFAST_URL="+c.url, "TMPDIR="+s.dir) // so that files of a killed caller are removed with the test
			test(c)
		})
	}
}

// serve starts a server for the store, and returns its URL.
func (s *stage) serve() (server *run, url string) {
	s.Helper()
	server = s.start("holdfast", "serve", "--listen", "127.0.0.1:0", "--store", s.store)
	s.until("ready", func() bool { return strings.Contains(server.printed(), "holdfast: ready\n") })
	return server, regexp.MustCompile(`listening on (\S+), `).FindStringSubmatch(server.printed())[1]
}

// nightly starts ./nightly.sh as the page does.
func (c *calling) nightly() *run {
	c.Helper()
	return c.start(c.program[0], c.path(c.use))
}

// contender is a program that continues when the test lets it.
type contender struct {
	*run
	c    *calling
	file string
}

func (c *calling) contend(name string) *contender {
	c.Helper()
	c.file(name, 0o644, "")
	return &contender{run: c.start(c.program[0], c.path("steps"), name, c.path(name)), c: c, file: c.path(name)}
}

func (p *contender) step(line string) {
	p.Helper()
	file, err := os.OpenFile(p.file, os.O_WRONLY|os.O_APPEND, 0)
	p.check(err)
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	p.check(err)
}

// witness waits until len(want) names have been written, which must be want.
func (c *calling) witness(want ...string) {
	c.Helper()
	var got []string
	c.until(fmt.Sprint("written: ", want), func() bool {
		text, err := os.ReadFile(c.path("witness"))
		if err != nil {
			return false
		}
		got = strings.Fields(string(text))
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		c.Fatalf("names written: %v, want %v", got, want)
	}
}

// checkFree fails the test unless the lock has neither a holder nor a waiter.
func (c *calling) checkFree() {
	c.Helper()
	client, err := holdfast.Open(c.Context(), c.store, nil)
	c.check(err)
	defer client.Close()
	for hold, err := range client.Admin().Holds(c.Context(), holdfast.Filter{Resource: "nightly"}) {
		c.check(err)
		c.Errorf("%v holds the lock when all have ended", hold)
	}
	c.awaitWaiters("nightly", 0)
}

// A caller that is stopped for longer than it may hold does nothing as holder when it
// continues.
func TestCallersThatWereStopped(t *testing.T) {
	onCallers(t, func(c *calling) {
		a := c.contend("a")
		c.witness("a")
		b := c.contend("b")
		c.awaitWaiters("nightly", 1)
		a.step("more")
		c.witness("a", "a")
		a.all(syscall.SIGSTOP)
		c.witness("a", "a", "b")
		a.step("too late")
		a.all(syscall.SIGCONT)
		a.exits(76)
		b.step("more")
		c.witness("a", "a", "b", "b")
		d := c.contend("d")
		c.awaitWaiters("nightly", 1)
		b.step("end")
		b.exits(0)
		c.witness("a", "a", "b", "b", "d")
		d.step("end")
		d.exits(0)
		c.checkFree()
	})
}

// A killed caller's command ends with it, and the next caller gets the lock after the TTL.
func TestCallersThatAreKilled(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		command := c.awaitBegun(1)
		second := c.nightly()
		c.awaitWaiters("nightly", 1)
		c.checkBegun(1)
		first.signal(syscall.SIGKILL)
		c.awaitBegun(2)
		if isRunning(command.pid) {
			t.Error("the command of the killed caller is still running")
		}
		c.letEnd(2) // a process of the killed command may take one
		second.exits(0)
		c.checkFree()
	})
}

// A caller whose renewals get no answer ends its command before the next command begins, which
// locks in the store without the server.
func TestCallersWithoutAnswer(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		command := c.awaitBegun(1)
		second := c.start("holdfast", "run", "--quiet", "nightly", "--", "./nightly.sh")
		c.awaitWaiters("nightly", 1)
		c.server.signal(syscall.SIGSTOP)
		c.awaitBegun(2)
		if isRunning(command.pid) {
			t.Error("the command outlived the lock")
		}
		first.exits(76)
		c.server.signal(syscall.SIGCONT)
		c.letEnd(1)
		second.exits(0)
	})
}

// all sends a signal to all processes of the session that the run began. With SIGSTOP it
// returns when they have stopped.
func (r *run) all(sig syscall.Signal) {
	r.Helper()
	r.until("stopped", func() bool {
		stopped := true
		for _, pid := range session(r.cmd.Process.Pid) {
			_ = syscall.Kill(pid, sig)
			if f := stat(pid); sig == syscall.SIGSTOP && len(f) > 0 && !slices.Contains([]string{"T", "Z", "X"}, f[0]) {
				stopped = false
			}
		}
		return stopped
	})
}

func session(leader int) []int {
	var found []int
	entries, _ := fs.Glob(os.DirFS("/proc"), "[0-9]*")
	for _, name := range entries {
		pid, _ := strconv.Atoi(name)
		if f := stat(pid); len(f) > 3 && f[3] == strconv.Itoa(leader) {
			found = append(found, pid)
		}
	}
	return found
}
