//go:build linux

package recipes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/command"
	_ "github.com/holdfast-go/holdfast/redislock" // registers its URLs
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	// patience limits how long a test waits on a busy machine.
	patience = time.Minute
	// ttl is the TTL of locks in recipes that set none. A test waits for it after a kill.
	ttl = "3s"
)

// holdfastBinary builds the command once and returns its folder.
var holdfastBinary = sync.OnceValues(func() (string, error) {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "holdfast-recipes-*")
	if err != nil {
		return "", err
	}
	// Every user may run it, for the recipe with sudo.
	if err := os.Chmod(folder, 0o755); err != nil {
		return "", err
	}
	_, err = command.Build(ctx, folder, nil)
	return folder, err
})

func TestMain(m *testing.M) {
	// The children of a killed process become children of this one, and not of init, so that
	// the tests can see their end.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	// Tests wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	status := m.Run()
	if folder, err := holdfastBinary(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(status)
}

// stage is a machine of the reader: a folder with commands, and a store.
type stage struct {
	*testing.T
	dir   string // working folder of commands, and their HOME
	bin   string // the first folder of PATH: holdfast, and stand-ins
	store string
	env   []string
}

// set returns a stage. Its store is a file unless another one is given.
func set(t *testing.T, store ...string) *stage {
	t.Helper()
	built, err := holdfastBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, dir: t.TempDir()}
	s.bin, s.store = filepath.Join(s.dir, "bin"), "sqlite://"+filepath.Join(s.dir, "locks.db")
	if len(store) > 0 {
		s.store = store[0]
	}
	s.check(os.Mkdir(s.bin, 0o755))
	s.check(os.Link(filepath.Join(built, "holdfast"), filepath.Join(s.bin, "holdfast")))
	s.check(unix.Mkfifo(s.path("gate"), 0o666))
	s.file("journal", 0o666, "")
	s.env = []string{"PATH=" + s.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + s.dir, "USER=ada", "LC_ALL=C",
		"HOLDFAST_STORE=" + s.store, "HOLDFAST_TTL=" + ttl}
	return s
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) file(name string, mode os.FileMode, text string) {
	s.Helper()
	s.check(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.check(os.WriteFile(s.path(name), []byte(text), mode))
	s.check(os.Chmod(s.path(name), mode)) // independent of the umask
}

// script writes an executable file.
func (s *stage) script(name, text string) {
	s.Helper()
	s.file(name, 0o755, text)
}

// command writes a command of the reader. It records its start, waits until letEnd lets it end
// or a signal asks it to, and records that.
func (s *stage) command(name string) {
	s.Helper()
	s.script(name, fmt.Sprintf(`#!/bin/sh
trap 'echo "signal $$ $0" >> %[1]s; kill $! 2>/dev/null; exit 143' TERM INT HUP
head -c 1 %[2]s > /dev/null &
echo "begin $$ $0 $*" >> %[1]s
wait $!
echo "end $$ $0" >> %[1]s
`, s.path("journal"), s.path("gate")))
}

// event is a line that a command wrote to the journal.
type event struct {
	what string
	pid  int
	args string // its command line
}

// events returns the events of a kind so far.
func (s *stage) events(what string) []event {
	s.Helper()
	var found []event
	for line := range strings.Lines(read(s.T, s.path("journal"))) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) < 3 || f[0] != what {
			continue
		}
		pid, err := strconv.Atoi(f[1])
		s.check(err)
		found = append(found, event{what, pid, f[2]})
	}
	return found
}

// until polls until done returns true, or ends the test.
func (s *stage) until(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not %s after %v; the journal:\n%s", what, patience, read(s.T, s.path("journal")))
		}
	}
}

// awaitBegun waits until n commands have begun, and returns the start of the nth.
func (s *stage) awaitBegun(n int) event {
	s.Helper()
	s.until(fmt.Sprint(n, " commands begun"), func() bool { return len(s.events("begin")) >= n })
	return s.events("begin")[n-1]
}

// letEnd lets n commands end, now or when they begin.
func (s *stage) letEnd(n int) {
	s.Helper()
	gate, err := os.OpenFile(s.path("gate"), os.O_RDWR, 0) // opened for reading too, so that opening the pipe does not block
	s.check(err)
	s.Cleanup(func() { gate.Close() }) // a pipe loses its content when nobody has it open
	_, err = gate.Write(make([]byte, n))
	s.check(err)
}

// awaitWaiters waits until the resource has n waiters.
func (s *stage) awaitWaiters(resource string, n int) {
	s.Helper()
	client, err := holdfast.Open(s.Context(), s.store, nil)
	s.check(err)
	defer client.Close()
	s.until(fmt.Sprint(n, " waiting for ", resource), func() bool {
		found := 0
		for _, err := range client.Admin().Waiters(s.Context(), holdfast.Filter{Resource: resource}) {
			s.check(err)
			found++
		}
		return found >= n
	})
}

// run is a process that a recipe started.
type run struct {
	*stage
	cmd   *exec.Cmd
	out   string // the file with its output
	ended chan struct{}
}

// start starts a program in the folder of the stage, without a terminal.
func (s *stage) start(program string, args ...string) *run {
	s.Helper()
	return s.startIn(s.env, program, args...)
}

func (s *stage) startIn(env []string, program string, args ...string) *run {
	s.Helper()
	out, err := os.CreateTemp(s.dir, "out-*")
	s.check(err)
	defer out.Close()
	if filepath.Base(program) == program {
		if _, err := os.Stat(filepath.Join(s.bin, program)); err == nil {
			program = filepath.Join(s.bin, program)
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(s.Context()), program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	s.check(cmd.Start())
	r := &run{stage: s, cmd: cmd, out: out.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(r.ended)
	}()
	s.Cleanup(func() {
		for _, e := range s.events("begin") {
			if commandOf(e.pid) {
				_ = syscall.Kill(e.pid, syscall.SIGKILL)
			}
		}
		_ = cmd.Process.Kill()
		<-r.ended
	})
	return r
}

// sh runs the lines in a shell, which stops at the first line that fails.
func (s *stage) sh(lines string) *run {
	s.Helper()
	return s.start("/bin/sh", "-ec", lines)
}

// awaitEnd waits for the end.
func (r *run) awaitEnd() {
	r.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.Fatalf("%v has not ended after %v; it printed:\n%s", r.cmd.Args, patience, r.printed())
	}
}

// exits waits for the end and checks the status: 128+n if signal n killed the process.
func (r *run) exits(want int) {
	r.Helper()
	r.awaitEnd()
	got := r.cmd.ProcessState.ExitCode()
	if ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		got = 128 + int(ws.Signal())
	}
	if got != want {
		r.Errorf("%v: status %d, want %d; it printed:\n%s", r.cmd.Args, got, want, r.printed())
	}
}

func (r *run) printed() string {
	r.Helper()
	return read(r.T, r.out)
}

// signal sends a signal to the process that the recipe started.
func (r *run) signal(sig syscall.Signal) {
	r.Helper()
	r.check(r.cmd.Process.Signal(sig))
}

// killWrapper kills the holdfast run around a command, and waits until the command is dead.
func (s *stage) killWrapper(command event) {
	s.Helper()
	guard := command.pid
	for comm := ""; comm != "holdguard\n"; {
		if guard = parent(guard); guard <= 1 {
			s.Fatalf("no guard above %v", command)
		}
		comm = read(s.T, fmt.Sprintf("/proc/%d/comm", guard))
	}
	s.check(syscall.Kill(parent(guard), syscall.SIGKILL))
	s.dead(command.pid)
}

func (s *stage) dead(pid int) {
	s.Helper()
	s.until(fmt.Sprint(pid, " dead"), func() bool { return !isRunning(pid) })
}

// parent returns the parent of a process, or 0 if the process is gone.
func parent(pid int) int {
	f := stat(pid)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

// isRunning reports whether the process runs. A zombie does not.
func isRunning(pid int) bool {
	f := stat(pid)
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

// stat returns the fields of the process in /proc/PID/stat (see proc(5)), beginning with its
// state.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// commandOf reports whether the process is still a command of a stage, and not another process
// with the same ID.
func commandOf(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(line), "/bin/sh\x00")
}

// tool returns the path of a program. Without the program it skips the test.
func (s *stage) tool(name string) string {
	s.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		s.Skipf("%s is missing", name)
	}
	return path
}

// checkBegun checks that n commands have begun, so that no other command runs.
func (s *stage) checkBegun(n int) {
	s.Helper()
	begun, ended := len(s.events("begin")), len(s.events("end"))+len(s.events("signal"))
	if begun != n {
		s.Errorf("%d commands have begun, want %d (%d have ended)", begun, n, ended)
	}
}

// checkWaits tests a recipe that waits for the lock of the resource: of two runs one works at a
// time, and if a run is killed, its command ends before the next command begins.
func (s *stage) checkWaits(resource string, start func() *run) {
	s.Helper()
	first := start()
	command := s.awaitBegun(1)
	second := start()
	s.awaitWaiters(resource, 1)
	s.checkBegun(1)
	s.letEnd(1)
	first.exits(0)
	s.awaitBegun(2)
	if ended := s.events("end"); len(ended) != 1 || ended[0].pid != command.pid {
		s.Errorf("ended: %v; the second began before the first, %v, had", ended, command)
	}
	third := start()
	s.awaitWaiters(resource, 1)
	s.killWrapper(s.events("begin")[1])
	second.awaitEnd()
	s.awaitBegun(3)
	s.letEnd(1)
	third.exits(0)
	s.checkBegun(3)
}

// checkSkips tests a recipe that does not wait: a second run at the same time exits with the
// status and prints only what says contains; after a kill the recipe runs again.
func (s *stage) checkSkips(start func() *run, status int, says string) {
	s.Helper()
	first := start()
	command := s.awaitBegun(1)
	second := start()
	second.exits(status)
	if got := second.printed(); says == "" && got != "" || !strings.Contains(got, says) {
		s.Errorf("a skipped run printed %q, want %q", got, says)
	}
	s.checkBegun(1)
	s.killWrapper(command)
	first.awaitEnd()
	var again *run
	s.until("begun after a kill", func() bool {
		again = start()
		s.until("begun or skipped", func() bool {
			select {
			case <-again.ended:
				return true
			default:
				return len(s.events("begin")) == 2
			}
		})
		return len(s.events("begin")) == 2
	})
	s.letEnd(1)
	again.awaitEnd() // not only the command: the lock is released after its end
	if ended := s.events("end"); len(ended) != 1 {
		s.Errorf("ended: %v, want one command", ended)
	}
}
