//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// console is a terminal with a program on it, and who sits in front of it. It
// echoes nothing, so that all that is seen was printed by a program.
type console struct {
	*testing.T
	keyboard *os.File // the master of the pty
	program  *exec.Cmd
	gate     *os.File // see goOn
	dir      string   // where the program runs
	store    string
	ended    chan struct{} // closed when the program has

	mu      sync.Mutex
	screen  []byte        // all that was printed
	seen    int           // as far as it was expected
	printed chan struct{} // closed when more was
}

// prompt is what the shells print before each command.
const prompt = "ready> "

// open starts the program as the leader of a terminal's session.
func open(t *testing.T, program ...string) *console {
	t.Helper()
	dir := t.TempDir()
	c := &console{
		T: t, dir: dir, store: "sqlite://" + filepath.Join(dir, "locks.db"),
		program: exec.CommandContext(context.WithoutCancel(t.Context()), program[0], program[1:]...),
		ended:   make(chan struct{}), printed: make(chan struct{}),
	}
	gate := filepath.Join(dir, "go")
	c.check(unix.Mkfifo(gate, 0o600))
	var err error
	c.gate, err = os.OpenFile(gate, os.O_RDWR, 0) // one that can be read and written at once waits for nobody
	c.check(err)
	c.program.Dir = dir
	c.program.Env = append(os.Environ(), "HOME="+dir, "HOLDFAST_STORE="+c.store, "PS1="+prompt, "PS2=", "ENV=", "TERM=dumb", "LC_ALL=C",
		"GORACE=atexit_sleep_ms=0") // else each program ends a second late
	master, slave, err := pty.Open()
	c.check(err)
	// In this mode Close ends a Read.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	c.check(err)
	c.check(unix.SetNonblock(fd, true))
	c.keyboard = os.NewFile(uintptr(fd), master.Name())
	c.check(master.Close())
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	c.check(err)
	modes.Lflag &^= unix.ECHO
	c.check(unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes))
	c.program.Stdin, c.program.Stdout, c.program.Stderr = slave, slave, slave
	c.program.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = c.program.Start()
	_ = slave.Close()
	c.check(err)
	go c.read()
	go func() {
		_ = c.program.Wait() // its state says the rest
		close(c.ended)
	}()
	t.Cleanup(func() {
		for p := range proc.Descendants(c.program.Process.Pid, nil) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		_ = c.program.Process.Kill()
		<-c.ended
		_ = c.keyboard.Close()
		_ = c.gate.Close()
	})
	return c
}

func (c *console) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%v\n%s", err, c.processes())
	}
}

func (c *console) read() {
	chunk := make([]byte, 4096)
	for {
		n, err := c.keyboard.Read(chunk)
		c.mu.Lock()
		c.screen = append(c.screen, chunk[:n]...)
		close(c.printed)
		c.printed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return // all have closed the terminal, or it was hung up
		}
	}
}

// enter types the text and the key that ends a line.
func (c *console) enter(text string) {
	c.Helper()
	c.press(text + "\n")
}

// The keys that make signals, and the one that ends the input.
const (
	ctrlC         = "\x03"
	ctrlD         = "\x04"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// press types the keys.
func (c *console) press(keys string) {
	c.Helper()
	_, err := c.keyboard.WriteString(keys)
	c.check(err)
}

// expect waits until what was printed since the last match matches, and returns
// the parts.
func (c *console) expect(pattern string) []string {
	c.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		rest, more := c.screen[c.seen:], c.printed
		at := re.FindSubmatchIndex(rest)
		if at != nil {
			parts := re.FindSubmatch(rest)
			found := make([]string, len(parts))
			for i, p := range parts {
				found[i] = string(p)
			}
			c.seen += at[1]
			c.mu.Unlock()
			return found
		}
		c.mu.Unlock()
		select {
		case <-more:
		case <-deadline:
			c.Fatalf("%q does not match %s after %v\n%s", rest, pattern, patience, c.processes())
		}
	}
}

// expectLine is expect of a whole line.
func (c *console) expectLine(pattern string) []string {
	c.Helper()
	return c.expect(`(?m)^` + pattern + `\r?$`)
}

// number is expect of a number, the pattern's first part.
func (c *console) number(pattern string) int {
	c.Helper()
	n, err := strconv.Atoi(c.expect(pattern)[1])
	c.check(err)
	return n
}

// never wants that nothing that matches was printed. It is for when something later
// has been seen.
func (c *console) never(pattern string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := regexp.MustCompile(pattern).Find(c.screen); found != nil {
		c.Fatalf("%q was printed, in %q", found, c.screen)
	}
}

// until polls.
func (c *console) until(what string, done func() bool) {
	c.Helper()
	if !poll(done) {
		c.Fatalf("not %s after %v\n%s", what, patience, c.processes())
	}
}

// processes tells for a failure's message what was printed and who lives.
func (c *console) processes() string {
	if c.program.Process == nil {
		return "nothing runs"
	}
	var b strings.Builder
	c.mu.Lock()
	fmt.Fprintf(&b, "printed: %q\n", c.screen)
	c.mu.Unlock()
	for p := range proc.Descendants(c.program.Process.Pid, nil) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		b.WriteString(strconv.Itoa(p.PID) + " parent " + strconv.Itoa(p.Parent) + " group " + strconv.Itoa(p.Group) +
			" " + state(p.PID) + " " + strings.ReplaceAll(string(line), "\x00", " ") + "\n")
	}
	return b.String() + "in front: " + strconv.Itoa(c.front())
}

// front is the terminal's foreground group.
func (c *console) front() (group int) {
	c.terminal(func(fd int) { group, _ = unix.IoctlGetInt(fd, unix.TIOCGPGRP) }) // 0 if it has hung up
	return group
}

func (c *console) modes() (modes unix.Termios) {
	c.Helper()
	c.terminal(func(fd int) {
		m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		c.check(err)
		modes = *m
	})
	return modes
}

// terminal calls f with the descriptor. Fd would change its mode.
func (c *console) terminal(f func(fd int)) {
	conn, err := c.keyboard.SyscallConn()
	c.check(err)
	_ = conn.Control(func(fd uintptr) { f(int(fd)) }) // fails once it is closed
}

// stopped waits until the processes are.
func (c *console) stopped(pids ...int) {
	c.Helper()
	for _, pid := range pids {
		c.until(strconv.Itoa(pid)+" stopped", func() bool { return state(pid) == "T" })
	}
}

// dead waits until the processes are no more.
func (c *console) dead(pids ...int) {
	c.Helper()
	for _, pid := range pids {
		c.until(strconv.Itoa(pid)+" dead", func() bool { return !runs(pid) })
	}
}

// over waits until the processes are no more, and wants the lock to be free then.
func (c *console) over(pids ...int) {
	c.Helper()
	c.dead(pids...)
	c.free("r")
}

// wrapper is the process that has the command of this ID run.
func (c *console) wrapper(command int) int {
	c.Helper()
	p, ok := proc.Read(command)
	if !ok {
		c.Fatalf("no process %d", command)
	}
	guard, ok := proc.Read(p.Parent)
	if !ok {
		c.Fatalf("no process %d", p.Parent)
	}
	return guard.Parent
}

// file writes a file into the folder where the program runs.
func (c *console) file(name, text string) {
	c.Helper()
	c.check(os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// saved is the number in a file.
func (c *console) saved(name string) (n int) {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	c.check(err)
	n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	c.check(err)
	return n
}

func (c *console) exists(name string) bool {
	return exists(filepath.Join(c.dir, name))
}

// another calls f as a Client that is not the console's.
func (c *console) another(f func(ctx context.Context, client *holdfast.Client)) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	client, err := holdfast.Open(ctx, c.store, nil)
	c.check(err)
	defer client.Close()
	f(ctx, client)
}

// token is the fencing token of the resource's hold, 0 if it has none.
func (c *console) token(resource string) (token uint64) {
	c.Helper()
	c.another(func(ctx context.Context, client *holdfast.Client) {
		for s, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: resource}) {
			c.check(err)
			token = s.Token
		}
	})
	return token
}

// free wants that another can lock the resource, before long.
func (c *console) free(resource string) {
	c.Helper()
	c.another(func(ctx context.Context, client *holdfast.Client) {
		hold, err := client.Lock(ctx, resource, nil)
		c.check(err)
		c.check(hold.Unlock(ctx))
	})
}

// held wants that nobody else can lock the resource.
func (c *console) held(resource string) {
	c.Helper()
	c.another(func(ctx context.Context, client *holdfast.Client) {
		if _, err := client.TryLock(ctx, resource, nil); !errors.Is(err, holdfast.ErrHeld) {
			c.Fatalf("%s is not held: %v", resource, err)
		}
	})
}

// exit wants that the program ends with the status, as a shell would show it.
func (c *console) exit(want int) {
	c.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.Fatalf("it runs on\n%s", c.processes())
	}
	if got := status(c.program.ProcessState); got != want {
		c.Fatalf("status %d, want %d\n%s", got, want, c.processes())
	}
}

// inShells runs the test of that name on a terminal with each kind of shell that has job
// control.
func inShells(t *testing.T, name string, test func(c *console)) {
	for _, shell := range [][]string{
		{"bash", "--norc", "--noprofile", "--noediting", "-i"},
		{"dash", "-i"},
	} {
		t.Run(strings.TrimSpace(name+" in "+shell[0]), func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip("needs a shell with job control:", err)
			}
			c := open(t, shell...)
			c.expect(prompt)
			test(c)
		})
	}
}

// run enters the line with a command for its %s, which does what is said, and returns the
// process ID of the command.
func (c *console) run(line, script string) (pid int) {
	c.Helper()
	c.enter(fmt.Sprintf(line, c.command(script)))
	return c.pid()
}

// script is run with lines of a script that the shell starts.
func (c *console) script(lines, script string) (pid int) {
	c.Helper()
	c.file("script", fmt.Sprintf(lines, c.command(script)))
	c.enter("sh script")
	return c.pid()
}

// reads enters a text, and wants the command to say that it got it.
func (c *console) reads(text string) {
	c.Helper()
	c.enter(text)
	c.expectLine("got " + text)
}

// suspend stops what is in the foreground, these processes among it.
func (c *console) suspend(pids ...int) {
	c.Helper()
	c.press(ctrlZ)
	c.expect(prompt)
	c.stopped(pids...)
}

// foreground continues the last job, until one of the groups is in front and runs.
func (c *console) foreground(groups ...int) {
	c.Helper()
	c.enter("fg")
	c.until("in front", func() bool { return slices.Contains(groups, c.front()) && state(c.front()) != "T" })
}

// ends wants that the shell's last command ends with the status, and the lock is free.
func (c *console) ends(status int) {
	c.Helper()
	c.expect(prompt)
	c.status(status)
	c.free("r")
}

func (c *console) groupOf(pid int) int {
	c.Helper()
	group, err := unix.Getpgid(pid)
	c.check(err)
	return group
}

// isDash reports whether the shell is dash.
func (c *console) isDash() bool { return strings.HasPrefix(filepath.Base(c.program.Path), "dash") }

// inner starts another shell of the same kind in the shell, behind the words before, and
// returns its process ID.
func (c *console) inner(before string) int {
	c.Helper()
	c.enter(before + strings.Join(c.program.Args, " "))
	c.expect(prompt)
	c.enter("echo inner $$.")
	pid := c.number(`inner (\d+)\.`)
	c.expect(prompt)
	return pid
}

// command is a shell's command that says its process ID and then does what is
// said.
func (c *console) command(script string) string {
	c.file("command", "echo pid $$.\n"+script)
	return "sh command"
}

// inFront fails unless the shell is in the foreground.
func (c *console) inFront(shell int) {
	c.Helper()
	if c.front() != shell {
		c.Error("the terminal was taken from the shell")
	}
}

// answers wants that the shell does what is typed.
func (c *console) answers() {
	c.Helper()
	c.enter("echo here")
	c.expectLine("here")
}

// pid is what command has said.
func (c *console) pid() int {
	c.Helper()
	return c.number(`pid (\d+)\.`)
}

const (
	// pause waits for goOn. No process is started for it: a shell cannot be stopped
	// while it starts one with vfork.
	pause = "read go <go"
	// listen does so for commands with traps, which a shell that reads may run late.
	listen = "until [ -e on ]; do sleep 0.02; done"
)

// goOn lets a command go on that pauses, and all that listen.
func (c *console) goOn() {
	c.Helper()
	c.file("on", "")
	_, err := c.gate.WriteString("\n")
	c.check(err)
}

// counting counts the signals it gets until it may go on, and exits with 7.
func counting(signals ...string) string {
	var b strings.Builder
	for _, s := range signals {
		fmt.Fprintf(&b, "%s=0; trap '%s=$((%s+1)); echo got %s $%s' %s\n", s, s, s, s, s, s)
	}
	b.WriteString("echo counting\n" + listen + "\n")
	for _, s := range signals {
		fmt.Fprintf(&b, "echo total %s $%s\n", s, s)
	}
	return b.String() + "exit 7\n"
}

// status wants that the shell's last command ended with the status.
func (c *console) status(want int) {
	c.Helper()
	c.enter("echo status $?.")
	if got := c.number(`status (\d+)\.`); got != want {
		c.Fatalf("status %d, want %d\n%s", got, want, c.processes())
	}
	c.expect(prompt)
}

// pidsSaid wants that many commands to have run.
func (c *console) pidsSaid(want int) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := strings.Count(string(c.screen), "pid "); got != want {
		c.Errorf("%d commands ran, want %d", got, want)
	}
}

// force releases the resource's hold by force.
func (c *console) force(resource string) {
	c.Helper()
	c.check(forceRelease(c.store, resource))
}

// hangUp closes the terminal.
func (c *console) hangUp() {
	c.Helper()
	c.check(c.keyboard.Close())
}

// renewed waits until the resource's hold was renewed so many times.
func (c *console) renewed(resource string, times int) {
	c.Helper()
	c.another(func(ctx context.Context, client *holdfast.Client) {
		var last time.Time
		c.until("renewed", func() bool {
			for s, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: resource}) {
				c.check(err)
				if s.Renewed != last {
					last = s.Renewed
					times--
				}
			}
			return times < 0
		})
	})
}

// suspended waits until the shell knows that its job in the background is stopped,
// which it does some time after it is.
func (c *console) suspended() {
	c.Helper()
	c.until("suspended", func() bool {
		c.enter("jobs")
		state := c.expect("(?i)(running|stopped)")[1]
		return strings.EqualFold(state, "stopped")
	})
	c.enter("echo seen")
	c.expect("seen\r?\n")
	c.expect(prompt)
}
