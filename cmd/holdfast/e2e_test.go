package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast"
)

func TestMain(m *testing.M) {
	// A shell's background job ignores interrupts, what nohup started ignores
	// hangups, and so would what they start. But the command, which is this program as
	// well, is to do as it was told.
	command := filepath.Base(os.Args[0]) == "holdfast"
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) && !command {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// Scripts wait more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"holdfast": withOutages(main), "leaderless": leaderless, "ask": asker})
}

// patience is how long a script waits for anything.
const patience = time.Minute

func TestScripts(t *testing.T) {
	p := scripts(t, func(dir string) string { return "sqlite://" + dir + "/locks.db" })
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// scripts are to be run with the store of that URL in each script's folder.
func scripts(t *testing.T, storeURL func(dir string) string) testscript.Params {
	return testscript.Params{
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // or each holdfast takes a second more
			e.Setenv("STORE", storeURL(e.WorkDir))
			e.Values[running{}] = make(map[string]*started)
			return os.Mkdir(home, 0o700)
		},
		Condition: func(name string) (bool, error) {
			if file, ok := strings.CutPrefix(name, "exists:"); ok {
				return exists(file), nil
			}
			switch name {
			case "race":
				info, _ := debug.ReadBuildInfo()
				return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "pids": // a process may be the first one of a PID namespace
				return exec.CommandContext(t.Context(), "unshare", "-rpf", "--mount-proc", "true").Run() == nil, nil
			case "mounts": // may be made to look different to one process
				return exec.CommandContext(t.Context(), "unshare", "-m", "mount", "--bind", "/proc/self/mounts", "/proc/self/mountinfo").Run() == nil, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":        exits,
			"refused":      refused,
			"start":        start,
			"send":         send,
			"finish":       finish,
			"waitfile":     waitfile,
			"opened":       opened,
			"gone":         gone,
			"force":        force,
			"busy":         busy,
			"deaf":         deaf,
			"sql":          execSQL,
			"guard":        signalGuard,
			"die":          die,
			"live":         live,
			"prints":       prints,
			"served":       served,
			"shows":        shows,
			"shows-metric": showsMetric,
			"value":        value,
			"waits":        waits,
		},
	}
}

// exits STATUS COMMAND... runs the command and wants the status, 128 and n for a
// death by signal n, as in a shell.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want := number(ts, args[0])
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = status(exit.ProcessState)
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

func status(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// refused STATUS REGEXP COMMAND... wants the status and just one line of
// output, on stderr, which begins with holdfast: and matches.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append([]string{args[0]}, args[2:]...))
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if stdout != "" {
		ts.Fatalf("it printed %q", stdout)
	}
	if !regexp.MustCompile(`\A(holdfast: waiting for [^\n]+\n)*holdfast: [^\n]+\n\z`).MatchString(stderr) {
		ts.Fatalf("want one line that begins with holdfast:, got %q", stderr)
	}
	if !regexp.MustCompile(args[1]).MatchString(stderr) {
		ts.Fatalf("%q does not match %s", stderr, args[1])
	}
}

// running is the key of a script's processes by name.
type running struct{}

type started struct {
	*exec.Cmd
	stdout, stderr *os.File      // no pipes: an orphan would keep them open
	done           chan struct{} // closed when it has ended
}

// start NAME COMMAND... starts the command beside the script.
func start(ts *testscript.TestScript, _ bool, args []string) {
	p := &started{Cmd: exec.CommandContext(context.Background(), args[1], args[2:]...), done: make(chan struct{})}
	p.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "STORE", "GOCOVERDIR", "GORACE", "TOKEN"} {
		p.Env = append(p.Env, name+"="+ts.Getenv(name))
	}
	p.stdout, p.stderr = outputFile(ts, args[0]), outputFile(ts, args[0])
	p.Stdout, p.Stderr = p.stdout, p.stderr
	ts.Check(p.Start())
	ts.Value(running{}).(map[string]*started)[args[0]] = p
	go func() {
		_ = p.Wait() // finish looks at the status
		close(p.done)
	}()
	ts.Defer(func() {
		_ = p.Process.Kill()
		<-p.done
	})
}

func outputFile(ts *testscript.TestScript, name string) *os.File {
	f, err := os.CreateTemp(ts.Getenv("WORK"), name+".output-*")
	ts.Check(err)
	ts.Defer(func() { _ = f.Close() })
	return f
}

func named(ts *testscript.TestScript, name string) *started {
	p := ts.Value(running{}).(map[string]*started)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

var signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	"HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
}

// send SIGNAL NAME
func send(ts *testscript.TestScript, _ bool, args []string) {
	sig, ok := signals[args[0]]
	if !ok {
		ts.Fatalf("no signal %s", args[0])
	}
	ts.Check(named(ts, args[1]).Process.Signal(sig))
}

// finish NAME STATUS waits for the end and wants the status, as exits does. What
// was printed is then stdout and stderr.
func finish(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s is still running", args[0])
	}
	stdout, stderr := ts.ReadFile(p.stdout.Name()), ts.ReadFile(p.stderr.Name())
	if got, want := status(p.ProcessState), number(ts, args[1]); got != want {
		ts.Fatalf("status %d, want %d\nstdout: %s\nstderr: %s", got, want, stdout, stderr)
	}
	_, err := ts.Stdout().Write([]byte(stdout))
	ts.Check(err)
	_, err = ts.Stderr().Write([]byte(stderr))
	ts.Check(err)
}

// waitfile FILE waits until the file is there.
func waitfile(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	until(ts, "no "+args[0], func() bool { return exists(file) })
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// opened FILE NAME waits until the process has the file open. It needs /proc.
func opened(ts *testscript.TestScript, _ bool, args []string) {
	file, pid := ts.MkAbs(args[0]), named(ts, args[1]).Process.Pid
	until(ts, args[1]+" has not opened "+args[0], func() bool { return opens(pid, file) })
}

// opens reports whether the process has the file open.
func opens(pid int, file string) bool {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(fds)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(fds, e.Name()))
		return err == nil && target == file // one may be closed meanwhile
	})
}

// gone FILE wants that the process whose number is in the file is no more.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid := number(ts, strings.TrimSpace(ts.ReadFile(args[0])))
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		ts.Fatalf("process %d lives", pid)
	}
}

// force RESOURCE releases the holds of the resource in $STORE by force.
func force(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(forceRelease(ts.Getenv("STORE"), args[0]))
}

func forceRelease(url, resource string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := holdfast.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	holds, err := client.Admin().ForceRelease(ctx, resource, holdfast.HoldID{})
	if err == nil && len(holds) != 1 {
		err = fmt.Errorf("%d holds of %s were released, want 1", len(holds), resource)
	}
	return err
}

// execSQL FILE STATEMENT
func execSQL(ts *testscript.TestScript, _ bool, args []string) {
	db := database(ts, args[0])
	_, err := db.ExecContext(context.Background(), args[1])
	ts.Check(err)
	ts.Check(db.Close())
}

// busy FILE keeps all others from writing to the file to the script's end.
func busy(ts *testscript.TestScript, _ bool, args []string) {
	db := database(ts, args[0])
	conn, err := db.Conn(context.Background())
	ts.Check(err)
	_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	ts.Check(err)
	ts.Defer(func() {
		_ = conn.Close() // with the transaction
		_ = db.Close()
	})
}

func database(ts *testscript.TestScript, file string) *sql.DB {
	db, err := sql.Open("sqlite", ts.MkAbs(file)+"?_pragma=busy_timeout(10000)")
	ts.Check(err)
	return db
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// poll waits until something is done, and reports whether it is in time.
func poll(done func() bool) bool {
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// until polls in a script.
func until(ts *testscript.TestScript, otherwise string, done func() bool) {
	if !poll(done) {
		ts.Fatalf("%s after %v", otherwise, patience)
	}
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}
