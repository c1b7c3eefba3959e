// Package proc finds processes on Linux, in proc(5).
package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Process is a process as it was when it was read.
type Process struct {
	PID, Parent, Group int
	// Dead says that it has ended and its parent has not waited for it yet.
	Dead bool
}

// Read reads one process. ok is false if there is none.
func Read(pid int) (p Process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// The second field, the name in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return p, false
	}
	p = Process{PID: pid, Dead: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	p.Parent, _ = strconv.Atoi(string(fields[1]))
	p.Group, _ = strconv.Atoi(string(fields[2]))
	return p, true
}

// Ignores reports whether the process, 0 for this one, ignores the signal.
func Ignores(pid int, sig syscall.Signal) bool {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	mask, _, _ := bytes.Cut(rest, []byte("\n"))
	ignored, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
	return err == nil && ignored&(1<<(sig-1)) != 0
}

// Descendants returns the live descendants of the process. It is not a snapshot: a
// process that is just being started may be missing.
func Descendants(root int) []Process {
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
		return search(root)
	}
	var found []Process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range children(next[0]) {
			next = append(next, pid)
			if p, ok := Read(pid); ok && !p.Dead {
				found = append(found, p)
			}
		}
	}
	return found
}

// children returns the children of all threads of the process.
func children(pid int) (pids []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(folder)
	if err != nil {
		return nil // it has ended
	}
	for _, thread := range threads {
		list, err := os.ReadFile(folder + thread.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for text := range bytes.FieldsSeq(list) {
			if pid, err := strconv.Atoi(string(text)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// search is Descendants for kernels that do not list children: it reads all
// processes.
func search(root int) []Process {
	children := make(map[int][]Process)
	for p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			next = append(next, p.PID)
			if !p.Dead {
				found = append(found, p)
			}
		}
	}
	return found
}

// Members returns the live members of the group, as Descendants does.
func Members(group int) []Process {
	var found []Process
	for p := range all {
		if p.Group == group && !p.Dead {
			found = append(found, p)
		}
	}
	return found
}

func all(yield func(Process) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		if p, ok := Read(pid); ok && !yield(p) {
			return
		}
	}
}
