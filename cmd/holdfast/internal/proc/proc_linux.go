// Package proc finds processes on Linux, in proc(5).
package proc

import (
	"bytes"
	"errors"
	"io/fs"
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
	// Dead says that it has ended and its parent has not waited for it yet.
	Dead bool

	start uint64 // when it began, in the kernel's ticks
}

// Read reads one process. ok is false if there is none.
func Read(pid int) (p Process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// The second field, the name in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const threads, start = 17, 19 // the 20th and the 22nd field
	if len(fields) <= start {
		return p, false
	}
	// A main thread that has ended is a Z while other threads live.
	n, _ := strconv.Atoi(string(fields[threads]))
	p = Process{PID: pid, Dead: fields[0][0] == 'Z' && n <= 1 || fields[0][0] == 'X'}
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

// Descendants yields the live descendants of the process, each once. It reads all
// processes, and again until there is none that it has not yielded: while processes end,
// and their children get another parent, one look may miss some. A process that is just
// being started may be missing.
func Descendants(root int) iter.Seq[Process] {
	return func(yield func(Process) bool) {
		type origin struct { // what stays the same for as long as a process lives
			pid   int
			start uint64
		}
		known := make(map[origin]bool)
		for range looks {
			further := false
			for _, p := range below(root) {
				if o := (origin{p.PID, p.start}); !known[o] {
					known[o], further = true, true
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
func below(root int) []Process {
	children := make(map[int][]Process)
	seen := make(map[int]bool)
	var read []Process
	for p := range all {
		seen[p.PID] = true
		read = append(read, p)
	}
	for _, p := range read {
		if p.Parent != 0 && p.PID != root && !seen[p.Parent] {
			// The parent has ended since, or began after the list was read.
			if again, ok := Read(p.PID); ok {
				p = again
			}
		}
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

// Children returns descendants of the process, as Descendants does, but in a time that
// depends on how many they are and not on how many processes the machine has. It may
// miss some while others end. Of a process that it may not read, only PID and Parent are
// set.
func Children(root int) []Process {
	if !Known() {
		return nil
	}
	var found []Process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range children(next[0]) {
			next = append(next, pid)
			p, ok := Read(pid)
			if !ok {
				p = Process{PID: pid, Parent: next[0]}
			}
			if !p.Dead {
				found = append(found, p)
			}
		}
	}
	return found
}

func children(pid int) (pids []int) {
	for _, number := range ChildrenIn(os.DirFS("/proc"), strconv.Itoa(pid)) {
		if pid, err := strconv.Atoi(number); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ChildrenIn returns the children of all threads of the process, as that /proc has them:
// none if the process has ended, or if the kernel lists no children.
func ChildrenIn(proc fs.FS, pid string) (numbers []string) {
	threads, _ := fs.ReadDir(proc, pid+"/task")
	for _, thread := range threads {
		list, _ := fs.ReadFile(proc, pid+"/task/"+thread.Name()+"/children") // fails if the thread has ended
		numbers = append(numbers, strings.Fields(string(list))...)
	}
	return numbers
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

// Name returns the name of the process: that of its program, cut to 15 bytes, or one that
// it has given itself. It is empty if it cannot be read.
func (p Process) Name() string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/comm")
	return string(bytes.TrimSuffix(name, []byte("\n")))
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

// Marked returns the live processes that began with one of the texts in their
// environment. It does not find processes of other users, or processes started
// without the variable or have overwritten their environment.
func Marked(marks []string) []Process {
	var found []Process
	for p := range all {
		if p.Dead || p.PID == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		if err != nil {
			continue
		}
		if slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(environment, []byte(mark)) }) {
			found = append(found, p)
		}
	}
	return found
}

// Signal sends the signal to the process, and never to another one that has its number
// since. The error is syscall.ESRCH if it has ended.
func (p Process) Signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case !errors.Is(err, unix.ESRCH): // before Linux 5.3, or forbidden
		fd = -1
	default:
		return err
	}
	// If the same process is there after its descriptor was opened, that is the process's.
	// One of another user may be hidden (hidepid), before and after.
	if now, ok := Read(p.PID); now.start != p.start || !ok && p.start != 0 {
		return unix.ESRCH
	}
	if fd < 0 {
		return syscall.Kill(p.PID, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// SignalHidden sends the signal to the children of this process that proc(5) hides from it,
// as with hidepid those that are not dumpable. They are children still when their
// descriptors are open, so no other process has their numbers.
func SignalHidden(sig syscall.Signal) {
	self := os.Getpid()
	for _, pid := range children(self) {
		if _, visible := Read(pid); visible {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has just ended, or before Linux 5.3
		}
		if slices.Contains(children(self), pid) {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0) // fails if it is another user's
		}
		_ = unix.Close(fd)
	}
}
