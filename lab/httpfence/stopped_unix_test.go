//go:build unix

package httpfence

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// process is a running holder.
type process struct {
	t     *testing.T
	cmd   *osexec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, c holderConfig) *process {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: osexec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])}
	p.cmd.Env = append(os.Environ(), holderEnv+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = p.cmd.Process.Kill() }
	hangs := time.AfterFunc(time.Minute, kill) // a safeguard against a process that hangs
	t.Cleanup(func() {
		hangs.Stop()
		kill()
		_ = p.cmd.Wait() // killed
	})
	return p
}

func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) says(want string) {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("it ended, and should say %q", want)
	}
	if got := p.lines.Text(); got != want {
		p.t.Fatalf("it says %q, want %q", got, want)
	}
}

// does sends a command to the process and compares the result.
func (p *process) does(line, want string) {
	p.t.Helper()
	p.tell(line)
	p.says(want)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// A holder is stopped in the middle of a request, and another one acquires the lock and works.
// When the first one continues, so does its request: it changes nothing.
func TestS2_stopped(t *testing.T) {
	for keep, newest := range map[string]func(t *testing.T) httpfence.Newest{
		"memory": func(*testing.T) httpfence.Newest { return new(httpfence.Memory) },
		"table": func(t *testing.T) httpfence.Newest {
			table := &httpfence.Table{DB: sqliteAt(t, filepath.Join(t.TempDir(), "fences.db"))}
			if err := table.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
			return table
		},
	} {
		for where, outcome := range map[string]string{"late": "stale", "half": "failed"} {
			t.Run(keep+"/"+where, func(t *testing.T) {
				t.Parallel()
				stopped(t, newest(t), where, outcome)
			})
		}
	}
}

func stopped(t *testing.T, newest httpfence.Newest, where, outcome string) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	locks, err := holdfast.Open(t.Context(), store, &holdfast.Options{NoSweep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	a := &account{value: 1}
	server := service(t, a, newest, httpfence.Held(locks))

	first := start(t, holderConfig{Store: store, Service: server.URL, TTL: 2 * time.Second, NoKeepAlive: true})
	next := start(t, holderConfig{Store: store, Service: server.URL})
	first.does("lock", "locked")
	first.does("write 100", "100")
	first.does(where+" 666", "sending")
	first.signal(syscall.SIGSTOP)

	next.does("lock", "locked") // after the TTL of the first one
	next.does("read", "100")
	next.does("write 200", "200")

	first.signal(syscall.SIGCONT)
	first.tell("go on")
	first.says(outcome)
	first.does("write 666", "failed") // the Transport knows the newer token by now
	next.does("write 300", "300")
	if a.get() != 300 {
		t.Errorf("the value is %d", a.get())
	}
}
