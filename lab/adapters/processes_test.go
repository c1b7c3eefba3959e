//go:build unix

package adapters_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// patience limits how long an event may take on a busy machine.
const patience = time.Minute

// process is a running worker.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// event is a line that a worker prints. The line is empty if the worker has ended.
type event struct {
	of   *process
	line string
}

// start starts a worker that ends with the test.
func start(t *testing.T, c config, events chan<- event) *process {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // still running if the test failed
		_ = p.cmd.Wait()
	})
	go func() {
		lines := bufio.NewScanner(out)
		for more := true; more; {
			more = lines.Scan()
			select {
			case events <- event{p, lines.Text()}:
			case <-t.Context().Done():
			}
		}
	}()
	return p
}

// until waits for a line from the process, or from any process if it is nil, and returns the
// process.
func until(t *testing.T, events <-chan event, of *process, line string) *process {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case e := <-events:
			switch {
			case e.line == overlap:
				t.Fatal("two work at once")
			case e.line == "" && line != "":
				t.Fatal("a worker ended early")
			case e.line == line && (of == nil || e.of == of):
				return e.of
			}
		case <-limit:
			t.Fatalf("no worker is %q within %v", line, patience)
		}
	}
}

// Only one of two processes works. After it is killed, the other one begins when the TTL of the
// lock has passed, and never before. After that process loses its lock, its work ends and
// begins again.
func TestProcesses(t *testing.T) {
	sqlite := func(t *testing.T) (string, string) { return local(t), t.TempDir() }
	postgres := func(t *testing.T) (string, string) { db := engines.PostgresDatabase(t); return db, db }
	redis := func(t *testing.T) (string, string) { s := engines.NewRedis(t); return s.URL, s.URL }
	for name, test := range map[string]struct {
		adapter, resource string
		store             func(t *testing.T) (store, data string)
		skips             bool // the process that does not work returns at once instead of waiting
	}{
		"gocron locker, PostgreSQL": {"gocron locker", "cron/report", postgres, true},
		"gocron elector, SQLite":    {"gocron elector", "scheduler", sqlite, true},
		"cron job, SQLite":          {"cron job", "report", sqlite, true},
		"cron job, Redis":           {"cron job", "report", redis, true},
		"asynq, Redis":              {"asynq", "scheduler", redis, false},
		"certmagic, SQLite":         {"certmagic", "tls/issue_cert_example.com", sqlite, false},
		"certmagic, PostgreSQL": {"certmagic", "tls/issue_cert_example.com", func(t *testing.T) (string, string) {
			return engines.PostgresDatabase(t), t.TempDir()
		}, false},
		"goose, PostgreSQL": {"goose", "migrations", postgres, false},
		"goose, SQLite": {"goose", "migrations", func(t *testing.T) (string, string) {
			return local(t), "sqlite:" + filepath.Join(t.TempDir(), "app.db")
		}, false},
		"mutex, SQLite": {"mutex", "mutex", sqlite, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, data := test.store(t)
			c := config{Adapter: test.adapter, Store: store, Data: data, Witness: filepath.Join(t.TempDir(), "witness")}
			operator := open(t, store)
			events := make(chan event)
			a, b := start(t, c, events), start(t, c, events)

			first := until(t, events, nil, working)
			second := a
			if first == a {
				second = b
			}
			if test.skips {
				until(t, events, second, skipped)
			} else {
				untilWaiting(t, operator, test.resource)
			}
			killed := time.Now()
			if err := first.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			untilAfterEnd(t, events, first, second)
			if took := time.Since(killed); took < ttl/2 {
				t.Errorf("the other works %v after the kill: the killed one's lock lasts for at least %v", took, ttl/2)
			}

			seize(t.Context(), t, operator, test.resource)
			until(t, events, second, lost)
			until(t, events, second, working)
			if err := second.stdin.Close(); err != nil {
				t.Error(err)
			}
			until(t, events, second, "")
			if err := second.cmd.Wait(); err != nil {
				t.Errorf("the worker's end: %v", err)
			}
			for s, err := range operator.Admin().Holds(t.Context(), holdfast.Filter{Resource: test.resource}) {
				t.Errorf("held in the end: %v, error %v", s, err)
			}
		})
	}
}

// untilAfterEnd waits until one process has ended and the other one works.
func untilAfterEnd(t *testing.T, events <-chan event, ended, works *process) {
	t.Helper()
	var over, begun bool
	for limit := time.After(patience); !over || !begun; {
		select {
		case e := <-events:
			switch {
			case e.line == overlap:
				t.Fatal("two work at once")
			case e.of == ended && e.line == "":
				over = true
				_ = ended.cmd.Wait() // killed
			case e.of == works && e.line == working:
				begun = true
			case e.of == works && e.line == "":
				t.Fatal("the other worker ended early")
			}
		case <-limit:
			t.Fatalf("after the kill, the other one does not work within %v", patience)
		}
	}
}

// untilWaiting waits until the resource has a waiter.
func untilWaiting(t *testing.T, c *holdfast.Client, resource string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; runtime.Gosched() {
		for _, err := range c.Admin().Waiters(t.Context(), holdfast.Filter{Resource: resource}) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("nobody waits for %q within %v", resource, patience)
		}
	}
}
