package proc

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	p, ok := Read(os.Getpid())
	if want := (Process{PID: os.Getpid(), Parent: os.Getppid(), Group: syscall.Getpgrp()}); !ok || p != want {
		t.Errorf("got %+v, %v, want %+v", p, ok, want)
	}
	if p, ok := Read(1 << 30); ok {
		t.Errorf("got %+v of a process that is none", p)
	}
}

func TestIgnores(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "trap '' TSTP; echo; read x")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("needs sh:", err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if pid := cmd.Process.Pid; !Ignores(pid, syscall.SIGTSTP) || Ignores(pid, syscall.SIGUSR1) {
		t.Error("the shell ignores TSTP, and not USR1")
	}
	signal.Ignore(syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGUSR1)
	if !Ignores(0, syscall.SIGUSR1) || Ignores(0, syscall.SIGUSR2) {
		t.Error("this process ignores USR1, and not USR2")
	}
	if Ignores(1<<30, syscall.SIGUSR1) {
		t.Error("a process that is none ignores a signal")
	}
	_ = stdin.Close()
	_ = cmd.Wait()
}

// The shell names itself so that its name looks like the fields after it.
func TestDescendants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `printf 'a) Z 1 1' >/proc/$$/comm; sleep 100 & echo $!; read x`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("needs sh:", err)
	}
	line := make([]byte, 16)
	if _, err := stdout.Read(line); err != nil {
		t.Fatal(err)
	}
	shell := Process{PID: cmd.Process.Pid, Parent: os.Getpid(), Group: cmd.Process.Pid}
	for _, find := range []func(int) []Process{Descendants, search} {
		found := find(os.Getpid())
		if !slices.Contains(found, shell) {
			t.Errorf("%+v is not in %+v", shell, found)
		}
		if !slices.ContainsFunc(found, func(p Process) bool { return p.Parent == shell.PID }) {
			t.Errorf("no child of %d in %+v", shell.PID, found)
		}
	}
	if err := syscall.Kill(-shell.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Until somebody waits for it, it is dead and not a descendant any more. Its
	// end is not told but by waiting, so look until it shows.
	for p, _ := Read(shell.PID); !p.Dead; p, _ = Read(shell.PID) {
	}
	for _, find := range []func(int) []Process{Descendants, search} {
		if slices.ContainsFunc(find(os.Getpid()), func(p Process) bool { return p.PID == shell.PID }) {
			t.Error("a dead process is among the descendants")
		}
	}
	_ = stdin.Close()
	_ = cmd.Wait()
}
