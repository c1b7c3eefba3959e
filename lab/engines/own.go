package engines

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// own is a server for one test.
type own struct {
	Engine
	kind   *kind
	folder string // with its data; "": none
	// start starts the server with the data in the folder.
	start   starter
	process *process // nil: it is stopped
}

// starter starts a server at a port, or at a free one for 0.
type starter func(ctx context.Context, port int) (*process, error)

// begin starts the server.
func (s *own) begin(t testing.TB, start starter, port int) {
	t.Helper()
	p, err := start(context.WithoutCancel(t.Context()), port)
	s.kind.need(t, err)
	s.process, s.Engine = p, s.kind.engine(p.url)
}

// endWithTest ends the server with the test, and removes its folder.
func (s *own) endWithTest(t testing.TB) {
	t.Cleanup(func() {
		s.Stop()
		if err := os.RemoveAll(s.folder); err != nil {
			t.Error(err)
		}
	})
}

// Restart stops the server and starts it again at the same address, with the data in its
// folder, as after a crash.
func (s *own) Restart(t testing.TB) {
	t.Helper()
	port := s.port(t)
	s.Stop()
	s.begin(t, s.start, port)
}

// empty is Restart without the data in that folder.
func (s *own) empty(t testing.TB, data string, create starter) {
	t.Helper()
	port := s.port(t)
	s.Stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	s.begin(t, create, port)
}

// Stop ends the server at once, as a crash would; its connections are cut.
func (s *own) Stop() {
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
}

// port returns the port of a server that a test has started.
func (e Engine) port(t testing.TB) int {
	t.Helper()
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatalf("no port in %s: %v", e.URL, err)
	}
	return port
}

// Freeze suspends the server until Thaw, like a suspended machine: requests to it wait.
func (s *own) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, freeze, awaitStopped)
}

// Thaw resumes the server.
func (s *own) Thaw(t testing.TB) {
	t.Helper()
	s.signal(t, thaw, func(testing.TB, int) {})
}

// signal signals the server and then its child processes, which with PostgreSQL are in process
// groups of their own. A stopped server starts no new ones.
func (s *own) signal(t testing.TB, signal syscall.Signal, await func(t testing.TB, pid int)) {
	t.Helper()
	if s.process == nil {
		t.Fatal("the server is stopped")
	}
	server := s.process.cmd.Process
	if err := server.Signal(signal); err != nil {
		t.Fatal(err)
	}
	await(t, server.Pid)
	for _, child := range children(server.Pid) {
		// It may have ended.
		_ = child.Signal(signal)
		await(t, child.Pid)
	}
}

// awaitStopped returns when all threads of a process have stopped, if the system shows that.
// After a signal, threads run on for a moment and may still answer.
func awaitStopped(t testing.TB, pid int) {
	t.Helper()
	limit := time.After(startup)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !stopped(pid) {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("process %d was stopped and still runs", pid)
		}
	}
}

// stopped reports whether all threads of a process have stopped or ended.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is valid
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		// The state follows the name, which is in parentheses and may contain some.
		_, state, _ := strings.Cut(string(text[max(0, strings.LastIndex(string(text), ")")):]), " ")
		if !strings.ContainsAny(state[:min(1, len(state))], "TtZX") {
			return false
		}
	}
	return true
}

// children returns the child processes of a process, if the system shows them.
func children(pid int) (all []*os.Process) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // one file for each thread
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(word); err == nil {
				if p, err := os.FindProcess(id); err == nil {
					all = append(all, p)
				}
			}
		}
	}
	return all
}
