package engines

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// own is a server that belongs to one test.
type own struct {
	process *process // nil: it is stopped
}

// Stop ends the server at once, as a crash would; its connections are cut.
func (s *own) Stop() {
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
}

// port is that of a server which a test has started.
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

// Freeze lets the server stand still until Thaw: what is sent to it waits, as on a
// machine that is suspended.
func (s *own) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, freeze)
}

// Thaw lets the server go on.
func (s *own) Thaw(t testing.TB) {
	t.Helper()
	s.signal(t, thaw)
}

// signal tells the server and then the processes that it has started, which are in
// process groups of their own with PostgreSQL. While it stands still it starts none.
func (s *own) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if s.process == nil {
		t.Fatal("the server is stopped")
	}
	if err := s.process.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	for _, child := range children(s.process.cmd.Process.Pid) {
		// It may have ended.
		_ = child.Signal(signal)
	}
}

// children are the processes that one has started, where the system tells.
func children(pid int) (all []*os.Process) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil
	}
	for word := range strings.FieldsSeq(string(text)) {
		if id, err := strconv.Atoi(word); err == nil {
			if p, err := os.FindProcess(id); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}
