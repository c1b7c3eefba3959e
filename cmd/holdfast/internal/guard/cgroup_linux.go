package guard

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// prefix begins the names of cgroups of commands. A cgroup that nobody has locked (flock)
// may be removed with everything in it: its guard is dead.
const prefix = "holdfast-"

// cgroup is the cgroup of a command, below that of the program, and locked by its guard.
// A nil cgroup is empty.
type cgroup struct {
	path string
	dir  *os.File // has the lock; nil: another process has
}

// newCgroup makes a cgroup that processes can be started in.
func newCgroup() (*cgroup, error) {
	parent, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	for range 10 {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, err
		}
		c, err := lockCgroup(path, unix.LOCK_EX)
		if err != nil {
			continue // somebody sweeps it up
		}
		if err := c.try(); err != nil {
			c.remove()
			c.forget()
			return nil, err
		}
		c.sweep()
		return c, nil
	}
	return nil, fmt.Errorf("each new cgroup in %s is removed at once", parent)
}

// ownCgroup returns the folder of the cgroup of this process.
func ownCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	_, rest, found := bytes.Cut(append([]byte("\n"), own...), []byte("\n0::"))
	path, _, _ := bytes.Cut(rest, []byte("\n"))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !found || !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		// The mount may show a part of the tree only.
		within, err := filepath.Rel(fields[3], string(path))
		if err == nil && !strings.HasPrefix(within, "..") {
			return filepath.Join(unescape(fields[4]), within), nil
		}
	}
	return "", errors.New("no cgroup version 2 is mounted")
}

// unescape decodes the path of a mount: blanks are written as octal numbers.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// lockCgroup locks the cgroup, unless another process has: exclusively for a guard, or
// shared with others that sweep it up, each of which waits until nothing in it lives.
func lockCgroup(path string, how int) (*cgroup, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &cgroup{path: path, dir: dir}
	if err := unix.Flock(c.descriptor(), how|unix.LOCK_NB); err != nil {
		c.forget()
		return nil, err
	}
	if _, err := os.Stat(path); err != nil { // it was removed in between
		c.forget()
		return nil, err
	}
	return c, nil
}

// cgroupOf returns the cgroup that the descriptor locks.
func cgroupOf(fd int) *cgroup {
	path, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return &cgroup{path: path, dir: os.NewFile(uintptr(fd), path)}
}

// forget leaves the lock to the processes that have it, too.
func (c *cgroup) forget() {
	_ = c.dir.Close()
	c.dir = nil
}

func (c *cgroup) descriptor() int {
	if c == nil || c.dir == nil {
		return -1
	}
	return int(c.dir.Fd())
}

// join makes what is started with the attributes begin in the cgroup.
func (c *cgroup) join(attr *syscall.SysProcAttr) {
	if fd := c.descriptor(); fd >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	}
}

// try checks that a process can be started in the cgroup and that all can be killed.
func (c *cgroup) try() error {
	if err := unix.Access(c.path+"/cgroup.kill", unix.W_OK); err != nil { // since Linux 5.14
		return &os.PathError{Op: "write to", Path: c.path + "/cgroup.kill", Err: err}
	}
	var attr syscall.SysProcAttr
	c.join(&attr)
	// There is no file of that name, so if it is looked for, the process was started.
	_, err := syscall.ForkExec("", []string{name}, &syscall.ProcAttr{Sys: &attr})
	if !errors.Is(err, syscall.ENOENT) {
		return &os.PathError{Op: "start a process in", Path: c.path, Err: err}
	}
	return nil
}

// kill sends KILL to all processes in the cgroup. The kernel sends it to the main thread of
// each, which does nothing if that thread has ended. So each process gets it, too.
func (c *cgroup) kill() {
	if c == nil {
		return
	}
	_ = os.WriteFile(c.path+"/cgroup.kill", []byte("1"), 0) // fails if it was removed
	for folder := range c.folders() {
		list, _ := os.ReadFile(folder + "/cgroup.procs")
		for number := range bytes.FieldsSeq(list) {
			pid, _ := strconv.Atoi(string(number)) // 0: of another namespace
			if p, ok := proc.Read(pid); ok {
				_ = p.Signal(syscall.SIGKILL) // fails if it has just ended
			}
		}
	}
}

// folders yields the cgroup's folder, and then the cgroups that the command has made in it.
func (c *cgroup) folders() iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = filepath.WalkDir(c.path, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && !yield(path) {
				return filepath.SkipAll
			}
			return nil
		})
	}
}

// lives reports whether a process is in the cgroup.
func (c *cgroup) lives() bool {
	if c == nil {
		return false
	}
	events, err := os.ReadFile(c.path + "/cgroup.events")
	return err == nil && bytes.Contains(events, []byte("populated 1"))
}

// has reports whether the process is in the cgroup.
func (c *cgroup) has(p proc.Process) bool {
	if c == nil {
		return false
	}
	in, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cgroup")
	return err == nil && bytes.Contains(in, []byte("/"+filepath.Base(c.path)))
}

// remove removes the cgroup and all cgroups that the command has made in it.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	for _, folder := range slices.Backward(slices.Collect(c.folders())) { // those within come first
		_ = unix.Rmdir(folder) // fails if a process is in it
	}
}

// sweep ends what guards that were killed have left beside this cgroup, and removes their
// cgroups. A process that waits for a disk keeps it for a second at most.
func (c *cgroup) sweep() {
	if c == nil {
		return
	}
	others, _ := filepath.Glob(filepath.Dir(c.path) + "/" + prefix + "*")
	for _, path := range others {
		if path == c.path {
			continue
		}
		other, err := lockCgroup(path, unix.LOCK_SH)
		if err != nil {
			continue // its guard lives
		}
		other.kill()
		for pause := time.Millisecond; other.lives() && pause < 512*time.Millisecond; pause *= 2 {
			time.Sleep(pause)
		}
		other.remove()
		other.forget()
	}
}
