package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// signalGuard SIGNAL NAME sends the signal to the guard that the process has
// started. It needs /proc.
func signalGuard(ts *testscript.TestScript, _ bool, args []string) {
	sig, ok := signals[args[0]]
	if !ok {
		ts.Fatalf("no signal %s", args[0])
	}
	pid := guardOf(ts, named(ts, args[1]).Process.Pid)
	ts.Check(syscall.Kill(pid, sig))
}

func guardOf(ts *testscript.TestScript, parent int) int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	ts.Check(err)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for child := range strings.FieldsSeq(string(text)) {
			if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) == "holdguard\n" {
				return number(ts, child)
			}
		}
	}
	ts.Fatalf("process %d has no guard", parent)
	return 0
}

// die FILE... waits until each process whose number is in a file is no more.
func die(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		pid := number(ts, strings.TrimSpace(ts.ReadFile(file)))
		until(ts, file+" lives", func() bool { return !runs(pid) })
	}
}

// live FILE... wants that each process whose number is in a file lives, and kills
// it.
func live(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		pid := number(ts, strings.TrimSpace(ts.ReadFile(file)))
		if !runs(pid) {
			ts.Fatalf("%s does not live", file)
		}
		ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	}
}

// state is the letter of proc(5), empty if there is no such process.
func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

// runs reports whether the process runs. One that nobody has waited for does not.
func runs(pid int) bool {
	s := state(pid)
	return s != "" && s != "Z"
}
