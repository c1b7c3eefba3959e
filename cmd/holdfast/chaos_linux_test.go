package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

var rounds = flag.Int("chaos.rounds", len(faults), "how many rounds TestChaos has")

const (
	// chaosTTL is the TTL of the locks. What kills a wrapper keeps its followers
	// waiting that long; and a sixteenth of it is what the kernel has, on a machine
	// that is busy with other rounds, for the processes of a command to end.
	chaosTTL = 8 * time.Second
	// chaosTogether is how many rounds there are at a time. Twice as many let each
	// other's guards wait longer than that where something else computes as well.
	chaosTogether = 4
)

// fault is what happens to a command that holds a lock while others wait for it.
type fault struct {
	// strikes are what happens, one after the other: a signal to the wrapper, the guard, the
	// command or, in any order, both of the first two; a key; a wait for a part of the TTL;
	// a wait until a follower has the lock; that the command may finish; or a series.
	strikes string
	status  []int // what the wrapper may end with
	keys    bool  // on a terminal, below a shell with job control
	alone   bool  // the command has no children
	family  bool  // the command has children in its session, which outlive it at TERM
	foreign bool  // the wrapper has a child that is not the command's
	isolate bool
}

var faults = []fault{
	{strikes: "KILL wrapper", status: []int{137}},
	{strikes: "KILL guard", status: []int{137}},
	// Of a tree that both leave behind the kernel ends the command itself.
	{strikes: "KILL both", status: []int{137}, alone: true},
	{strikes: "KILL command", status: []int{137}, alone: true},
	{strikes: "STOP wrapper, follower, CONT wrapper", status: []int{76}},
	{strikes: "STOP wrapper, follower, KILL wrapper", status: []int{137}},
	{strikes: strings.Repeat("STOP wrapper, wait 1/8, CONT wrapper, ", 5) + "finish", status: []int{0, 76}},
	{strikes: "STOP guard, wait 1/2, finish", status: []int{0}},
	{strikes: "STOP command, wait 1/4, KILL wrapper", status: []int{137}},
	{strikes: "Ctrl-Z, wait 1/8, fg, finish", status: []int{0}, keys: true},
	{strikes: "Ctrl-Z, follower, fg", status: []int{76}, keys: true},
	{strikes: "Ctrl-Z, wait 1/8, fg, finish", status: []int{0}, keys: true, isolate: true},

	// Several at once.
	{strikes: "STOP guard, KILL wrapper", status: []int{137}},
	{strikes: "STOP wrapper, STOP guard, wait 1/8, KILL wrapper", status: []int{137}},
	{strikes: "STOP wrapper, KILL guard, wait 1/8, CONT wrapper", status: []int{137}},
	{strikes: "STOP wrapper, KILL guard, follower, CONT wrapper", status: []int{137}, alone: true},
	{strikes: "KILL guard, KILL command", status: []int{137}},
	// If the guard lives to tell that the command has ended, what that leaves behind may live.
	{strikes: "KILL command, KILL guard", status: []int{137}, alone: true},
	{strikes: "KILL guard", status: []int{137}, foreign: true},
	{strikes: "STOP guard, KILL wrapper", status: []int{137}, foreign: true},
	{strikes: "series", status: []int{0, 76, 137}},
	{strikes: "series", status: []int{0, 76, 137}, isolate: true},

	// The main process ends first, of the wrapper's signal or of another one.
	{strikes: "TERM wrapper, wait 1/8, finish", status: []int{143}, family: true},
	{strikes: "TERM wrapper, wait 1/8, TERM wrapper, wait 1/8, INT wrapper", status: []int{143}, family: true},
	{strikes: "TERM wrapper, wait 1/8, KILL wrapper", status: []int{137}, family: true},
	{strikes: "TERM wrapper, wait 1/8, KILL guard", status: []int{137}, family: true},
	{strikes: "TERM wrapper, wait 1/8, STOP wrapper, follower, CONT wrapper", status: []int{76}, family: true},
	{strikes: "KILL command", status: []int{137}, family: true},

	// What only isolated commands stand.
	{strikes: "KILL both", status: []int{137}, isolate: true},
	{strikes: "STOP wrapper, KILL guard, follower, KILL wrapper", status: []int{137}, isolate: true},
}

// strike makes one of the strikes happen.
func (r *chaosRound) strike(what string) {
	verb, object, _ := strings.Cut(what, " ")
	switch verb {
	case "series":
		r.series()
	case "follower":
		r.follower()
	case "finish":
		r.finish()
	case "wait":
		r.idle(chaosTTL / map[string]time.Duration{"1/2": 2, "1/4": 4, "1/8": 8}[object])
	case "Ctrl-Z":
		r.key('Z' & 0x1f)
	case "fg":
		r.key('\n')
	default:
		sig, ok := signals[verb]
		if !ok {
			r.t.Fatalf("nobody knows the strike %q", what)
		}
		both := []int{r.wrapper, r.guard}
		rand.Shuffle(2, func(i, j int) { both[i], both[j] = both[j], both[i] })
		for _, pid := range map[string][]int{"wrapper": {r.wrapper}, "guard": {r.guard}, "command": {r.command}, "both": both}[object] {
			r.signal(pid, sig)
		}
	}
}

// series stops and continues the wrapper, the guard and the command at random, for less
// than the TTL, and lets one of them be killed or the command end.
func (r *chaosRound) series() {
	all := []int{r.wrapper, r.guard, r.command}
	for range 2 + rand.IntN(4) {
		sig := syscall.SIGSTOP
		if rand.IntN(2) == 0 {
			sig = syscall.SIGCONT
		}
		r.signal(all[rand.IntN(3)], sig)
		r.idle(rand.N(chaosTTL / 16))
	}
	switch victim := rand.IntN(3); victim {
	case 0: // the guard goes on, if only because the kernel continues it
		r.signal(r.wrapper, syscall.SIGKILL)
	case 1:
		r.signal(r.guard, syscall.SIGKILL)
		r.signal(r.wrapper, syscall.SIGCONT)
	default:
		for _, i := range rand.Perm(3) {
			r.signal(all[i], syscall.SIGCONT)
		}
		r.finish()
	}
}

// TestChaos lets something happen to commands that hold a lock, while others wait
// for it, and looks whether two of them are ever alive at once: all processes of
// a command hold a lock of the kernel's on a file from beginning to end, which
// the next command takes or finds taken.
func TestChaos(t *testing.T) {
	for _, tool := range []string{"flock", "setsid", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs", tool)
		}
	}
	store := "sqlite://" + t.TempDir() + "/locks.db"
	turns := make(chan int)
	var wg sync.WaitGroup
	for range chaosTogether {
		wg.Go(func() {
			for n := range turns {
				f := faults[n%len(faults)]
				t.Run(fmt.Sprintf("%03d %s %v", n, f.strikes, f.isolate), func(t *testing.T) { chaos(t, f, store, fmt.Sprint("r", n)) })
			}
		})
	}
	for n := range *rounds {
		turns <- n
	}
	close(turns)
	wg.Wait()
	t.Logf("%d rounds", *rounds)
}

// chaosRound is one command, what happens to it, and those who wait for it.
type chaosRound struct {
	t         *testing.T
	dir       string
	keyboard  *os.File
	gate      *os.File // each process of the command waits for a line from it
	followers []*exec.Cmd

	wrapper, guard, command int // process IDs
}

const witness = `exec 9>>witness
flock -n 9 || echo "$0 found another alive" >>overlap
if [ "$0" = follower ]; then
	: >followed
	exit 0
fi
if [ "$0" = family ]; then
	sh -c 'trap "" TERM; : >forked; read x <gate' &
	while ! [ -e forked ]; do sleep 0.01; done
	echo $$ >command.tmp
	mv command.tmp command
	read x <gate
	wait
	exit
fi
trap '' TERM
if [ "$0" = tree ]; then
	sh -c 'trap "" TERM HUP; read x <gate' &
	setsid sh -c 'trap "" TERM HUP; read x <gate' &
	(setsid sh -c 'trap "" TERM HUP; : >forked; read x <gate; exec 9>&-; rm forked' &)
	while ! [ -e forked ]; do sleep 0.01; done
fi
echo $$ >command.tmp
mv command.tmp command
read x <gate
wait
while [ -e forked ]; do sleep 0.01; done
`

func chaos(t *testing.T, f fault, store, resource string) {
	r := &chaosRound{t: t, dir: t.TempDir()}
	gate := filepath.Join(r.dir, "gate")
	err := syscall.Mkfifo(gate, 0o600)
	check(t, err)
	r.gate, err = os.OpenFile(gate, os.O_RDWR, 0) // it opens without a reader
	check(t, err)
	t.Cleanup(func() {
		r.finish() // what should have been killed and was not
		_ = r.gate.Close()
	})
	role := "tree"
	switch {
	case f.alone:
		role = "alone"
	case f.family:
		role = "family"
	}
	if f.isolate {
		probe := exec.CommandContext(t.Context(), "holdfast", "run", "--store", store, "--isolate", resource, "--", "true")
		if out, err := probe.CombinedOutput(); err != nil {
			t.Skipf("needs a PID namespace: %s", out)
		}
	}
	victim := r.start(f, store, resource, role)
	r.command = r.number("command")
	if f.isolate {
		r.command = r.outside(victim.Process.Pid, r.command)
	}
	r.guard = parentOf(t, r.command)
	r.wrapper = parentOf(t, r.guard)
	for range 2 {
		r.followers = append(r.followers, r.start(fault{isolate: f.isolate}, store, resource, "follower"))
	}
	for what := range strings.SplitSeq(f.strikes, ", ") {
		r.strike(what)
	}
	r.follower()
	for _, follower := range r.followers {
		if got := r.end(follower); got != 0 {
			t.Errorf("a follower ended with status %d", got)
		}
	}
	if got := r.end(victim); !slices.Contains(f.status, got) {
		t.Errorf("the wrapper ended with status %d, want one of %v", got, f.status)
	}
	if found, err := os.ReadFile(filepath.Join(r.dir, "overlap")); err == nil {
		t.Errorf("two were alive at once: %s", found)
	}
}

// start starts a run of the role as the fault needs it, on a terminal if there are to be
// keys.
func (r *chaosRound) start(f fault, store, resource, role string) *exec.Cmd {
	run := []string{"holdfast", "run", "--store", store, "--ttl", chaosTTL.String()}
	if f.isolate {
		run = append(run, "--isolate")
	}
	run = append(run, resource, "--", "sh", "-c", witness, role)
	if f.foreign {
		run = append([]string{"bash", "-c", `sh -c 'read x <gate' & exec "$@"`, "bash"}, run...)
	}
	if f.keys {
		// The shell reports the status of what it has brought back to the front.
		const shell = `set -m; "$@"; read line; fg >/dev/null`
		run = append([]string{"bash", "-c", shell, "bash"}, run...)
	}
	cmd := exec.CommandContext(context.Background(), run[0], run[1:]...)
	cmd.Dir = r.dir
	var out bytes.Buffer
	if f.keys {
		master, err := pty.Start(cmd)
		check(r.t, err)
		r.keyboard = master
		copied := make(chan struct{})
		go func() {
			_, _ = io.Copy(&out, master) // ends with an error when the terminal hangs up
			close(copied)
		}()
		r.t.Cleanup(func() {
			_ = master.Close()
			<-copied
		})
	} else {
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.WaitDelay = time.Second // what a KILL of both leaves behind may keep them open
		check(r.t, cmd.Start())
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if r.t.Failed() {
			r.t.Logf("%s printed %s", role, out.String())
		}
	})
	return cmd
}

// end waits for the end and returns the status as a shell counts.
func (r *chaosRound) end(cmd *exec.Cmd) int {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
			r.t.Fatal(exit, err)
		}
		return status(cmd.ProcessState)
	case <-time.After(patience):
		r.t.Fatalf("%v is still running", cmd.Args)
		return -1
	}
}

// signal sends the signal to a process, which another strike may have ended.
func (r *chaosRound) signal(pid int, sig syscall.Signal) {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		r.t.Fatalf("%v to %d: %v", sig, pid, err)
	}
}

// outside returns the number of the process below the wrapper that has that one in a PID
// namespace.
func (r *chaosRound) outside(wrapper, number int) int {
	for p := range proc.Descendants(wrapper, nil) {
		if numbers := p.Numbers(); len(numbers) == 2 && numbers[1] == number {
			return p.PID
		}
	}
	r.t.Fatalf("there is no process %d below %d", number, wrapper)
	return 0
}

// key types the character. One that stops the job has done so when this returns.
func (r *chaosRound) key(char byte) {
	if _, err := r.keyboard.Write([]byte{char}); err != nil {
		r.t.Fatal(err)
	}
	if char == 'Z'&0x1f {
		r.until("the wrapper has not stopped", func() bool { return state(r.wrapper) == "T" })
	} else {
		r.until("the wrapper has not been continued", func() bool { return state(r.wrapper) != "T" })
	}
}

// follower returns when the next command has begun.
func (r *chaosRound) follower() { r.await("a follower", "followed") }

// finish lets the command end by itself, as it may have done already.
func (r *chaosRound) finish() {
	if _, err := r.gate.WriteString(strings.Repeat("\n", 8)); err != nil {
		r.t.Fatal(err)
	}
}

// idle lets time pass in which the fault has its effect.
func (r *chaosRound) idle(d time.Duration) { <-time.After(d) }

func (r *chaosRound) number(file string) int {
	r.await("the command", file)
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	check(r.t, err)
	var n int
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *chaosRound) await(what, file string) {
	r.until(what+" has not begun", func() bool {
		return exists(filepath.Join(r.dir, file))
	})
}

func (r *chaosRound) until(otherwise string, done func() bool) {
	if !poll(done) {
		r.t.Fatalf("%s after %v", otherwise, patience)
	}
}

func parentOf(t *testing.T, pid int) int {
	p, ok := proc.Read(pid)
	if !ok {
		t.Fatalf("process %d is no more", pid)
	}
	return p.Parent
}
