// Package proc finds processes in proc(5). Where there is none, as on macOS, it finds none.
package proc

import (
	"bytes"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process as it was when it was read.
type Process struct {
	PID, Parent, Group int
	// Name is the name of its program, cut to 15 bytes, or one that it has given itself.
	Name string
	// Dead says that it has ended and its parent has not waited for it yet.
	Dead bool

	start uint64 // when it began, in the kernel's ticks; 0: it is hidden
}

// ID is what no other process has.
type ID struct {
	pid   int
	start uint64
}

// ID returns the ID of the process.
func (p Process) ID() ID { return ID{p.PID, p.start} }

// Read reads one process. ok is false if there is none.
func Read(pid int) (p Process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// The second field, the name in parentheses, may hold anything.
	first, last := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[last+1:])
	const threads, start = 17, 19 // the 20th and the 22nd field
	if first < 0 || last < first || len(fields) <= start {
		return p, false
	}
	// A main thread that has ended is a Z while other threads live.
	n, _ := strconv.Atoi(string(fields[threads]))
	p = Process{PID: pid, Name: string(stat[first+1 : last]), Dead: fields[0][0] == 'Z' && n <= 1 || fields[0][0] == 'X'}
	p.Parent, _ = strconv.Atoi(string(fields[1]))
	p.Group, _ = strconv.Atoi(string(fields[2]))
	p.start, _ = strconv.ParseUint(string(fields[start]), 10, 64)
	return p, true
}

// Ignores reports whether the process, 0 for this one, ignores the signal.
func Ignores(pid int, sig syscall.Signal) bool {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	status, _ := os.ReadFile("/proc/" + name + "/status")
	ignored, err := strconv.ParseUint(Field(status, "SigIgn"), 16, 64)
	return err == nil && ignored&(1<<(sig-1)) != 0
}

// Field returns a field of the status of a process, empty if there is none.
func Field(status []byte, name string) string {
	_, rest, _ := strings.Cut("\n"+string(status), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// looks is how often Descendants reads all processes at most: some fork without end.
const looks = 10

// Descendants yields the live descendants of the process, each once, but nothing below those
// that stop reports, which may be nil. It reads all processes, and again until there is none
// that it has not yielded: while processes end, and their children get another parent, one
// look may miss some. A process that is just being started may be missing. Of children that
// proc(5) hides, as with hidepid those that are not dumpable, it sets PID and Parent.
func Descendants(root int, stop func(Process) bool) iter.Seq[Process] {
	return func(yield func(Process) bool) {
		known := make(map[ID]bool)
		for range looks {
			further := false
			for _, p := range below(root, stop) {
				if !known[p.ID()] {
					known[p.ID()], further = true, true
					if !yield(p) {
						return
					}
				}
			}
			if !further {
				return
			}
		}
	}
}

// below is one look of Descendants.
func below(root int, stop func(Process) bool) []Process {
	byParent := make(map[int][]Process)
	read := make(map[int]Process)
	for p := range all {
		read[p.PID] = p
	}
	for _, p := range read {
		if _, seen := read[p.Parent]; !seen && p.Parent != 0 && p.PID != root {
			// The parent has ended since, or began after the list was read.
			if again, ok := Read(p.PID); ok {
				p = again
			}
		}
		byParent[p.Parent] = append(byParent[p.Parent], p)
	}
	for _, pid := range children(root) {
		if _, visible := Read(pid); !visible {
			byParent[root] = append(byParent[root], Process{PID: pid, Parent: root})
		}
	}
	return reach(root, stop, func(pid int) []Process { return byParent[pid] })
}

// reach returns the live descendants of the process by the children of each.
func reach(root int, stop func(Process) bool, children func(pid int) []Process) (found []Process) {
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range children(next[0]) {
			if stop == nil || !stop(p) {
				next = append(next, p.PID)
			}
			if !p.Dead {
				found = append(found, p)
			}
		}
	}
	return found
}

// Children returns descendants of the process, as Descendants does, but in a time that
// depends on how many they are and not on how many processes the machine has. It may
// miss some while others end. Of a process that it may not read, only PID and Parent are
// set.
func Children(root int) []Process { return reach(root, nil, childrenOf) }

// Own returns the children of this process, dead ones too.
func Own() []Process { return childrenOf(os.Getpid()) }

func childrenOf(parent int) (found []Process) {
	for _, pid := range children(parent) {
		p, ok := Read(pid)
		if !ok {
			p = Process{PID: pid, Parent: parent}
		}
		found = append(found, p)
	}
	return found
}

// children returns the children of the process: none if it has ended, if the kernel lists no
// children, or if proc(5) is not this process's.
func children(pid int) (pids []int) {
	if !Known() {
		return nil
	}
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, _ := os.ReadDir(tasks)
	for _, thread := range threads {
		list, _ := os.ReadFile(tasks + thread.Name() + "/children") // fails if the thread has ended
		for number := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(number); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
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

// Known reports whether proc(5) is mounted, and is that of this process's PID namespace: in
// another one, numbers mean other processes. If it is not, no processes are found.
func Known() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

func all(yield func(Process) bool) {
	if !Known() {
		return
	}
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

// UID returns the user whose rights the process has, or -1 if that cannot be read.
func (p Process) UID() int {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	const effective = 1
	if ids := strings.Fields(Field(status, "Uid")); len(ids) > effective {
		if uid, err := strconv.Atoi(ids[effective]); err == nil {
			return uid
		}
	}
	return -1
}

// Numbers returns the numbers of the process in the PID namespaces that it is in, from this
// process's on.
func (p Process) Numbers() []int {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	numbers := []int{p.PID}
	for i, field := range strings.Fields(Field(status, "NSpid")) {
		if n, err := strconv.Atoi(field); err == nil && i > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Signal sends the signal to the process, and never to another one that has its number
// since. It is an error if it has ended.
func (p Process) Signal(sig syscall.Signal) error {
	// Since Linux 5.3 this is a descriptor: if the same process is there after it was opened, it
	// is the process's.
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	now, visible := Read(p.PID)
	if now.start != p.start || !visible && !slices.Contains(children(p.Parent), p.PID) {
		return unix.ESRCH
	}
	return process.Signal(sig)
}

// Session returns the session of the process, or 0 if it has ended or the session's leader is
// outside the PID namespace.
func (p Process) Session() int {
	session, err := unix.Getsid(p.PID)
	if err != nil {
		return 0
	}
	return session
}
