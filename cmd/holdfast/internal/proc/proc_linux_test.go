package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	p, ok := Read(os.Getpid())
	if want := (Process{PID: os.Getpid(), Parent: os.Getppid(), Group: syscall.Getpgrp(), Name: p.Name, start: p.start}); !ok || p != want || p.start == 0 || p.Name == "" {
		t.Errorf("got %+v, %v, want %+v", p, ok, want)
	}
	if p, ok := Read(1 << 30); ok {
		t.Errorf("got %+v of a process that is none", p)
	}
}

// shell starts a script in a process group of its own, and returns its ID once it has
// printed something. The script ends by itself when it reads, at the end of the test.
func shell(t *testing.T, script string) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip("needs sh:", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestIgnores(t *testing.T) {
	if pid := shell(t, "trap '' TSTP; echo; read x"); !Ignores(pid, syscall.SIGTSTP) || Ignores(pid, syscall.SIGUSR2) {
		t.Error("the shell ignores TSTP, and not USR2")
	}
	signal.Ignore(syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGUSR1) // the system goes on ignoring it
	if !Ignores(0, syscall.SIGUSR1) || Ignores(0, syscall.SIGUSR2) {
		t.Error("this process ignores USR1, and not USR2")
	}
	if Ignores(1<<30, syscall.SIGUSR1) {
		t.Error("a process that is none ignores a signal")
	}
}

// The shell names itself so that its name looks like the fields after it.
func TestDescendants(t *testing.T) {
	pid := shell(t, `printf 'a) Z 1 1' >/proc/$$/comm; sleep 100 & echo $!; read x`)
	shell, _ := Read(pid)
	if want := (Process{PID: pid, Parent: os.Getpid(), Group: pid, Name: "a) Z 1 1", start: shell.start}); shell != want {
		t.Fatalf("got %+v, want %+v", shell, want)
	}
	descendants := func(root int) []Process { return slices.Collect(Descendants(root, nil)) }
	for _, find := range []func(int) []Process{descendants, Children} {
		found := find(os.Getpid())
		if !slices.Contains(found, shell) {
			t.Errorf("%+v is not in %+v", shell, found)
		}
		if !slices.ContainsFunc(found, func(p Process) bool { return p.Parent == shell.PID }) {
			t.Errorf("no child of %d in %+v", shell.PID, found)
		}
	}
	check(t, syscall.Kill(-shell.PID, syscall.SIGKILL))
	// Until somebody waits for it, it is dead and not a descendant any more. Its
	// end is not told but by waiting, so look until it shows.
	for p, _ := Read(shell.PID); !p.Dead; p, _ = Read(shell.PID) {
	}
	for _, find := range []func(int) []Process{descendants, Children} {
		if slices.ContainsFunc(find(os.Getpid()), func(p Process) bool { return p.PID == shell.PID }) {
			t.Error("a dead process is among the descendants")
		}
	}
}

func TestSignal(t *testing.T) {
	p, _ := Read(shell(t, "echo; read x"))
	other := p
	other.start++
	if err := other.Signal(syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process that has the number of one that has ended: got %v, want that it is no more", err)
	}
	if err := p.Signal(0); err != nil {
		t.Errorf("got %v of a live process", err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for now, _ := Read(p.PID); !now.Dead; now, _ = Read(p.PID) {
	}
}
