package sqlitelock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/driver"
)

// thisSystem uses CLOCK_BOOTTIME, which changes of the wall clock do not move and which
// continues while the machine sleeps.
func thisSystem() system {
	return system{
		clockSource: clockSource{wall: time.Now, boot: bootID, uptime: uptime},
		mount:       mount,
		listen:      listen,
		restLook:    2 * time.Second,
	}
}

func bootID() (string, error) {
	id, err := bootIDIn("/proc/sys/kernel/random")
	if err == nil {
		_, err = timeNamespace()
	}
	if err != nil {
		// A different clock would be wrong if other processes read this one.
		return "", fmt.Errorf("%w: the clock of the host cannot be read, which all processes must share: %w",
			driver.ErrUnusable, err)
	}
	return id, nil
}

// bootIDIn reads the boot ID. LXC and systemd-nspawn mount a file with an ID of the
// container over it, so that file is on another file system than its folder.
func bootIDIn(folder string) (string, error) {
	name := filepath.Join(folder, "boot_id")
	id, err := os.ReadFile(name)
	file, errFile := os.Stat(name)
	dir, errDir := os.Stat(folder)
	if err := errors.Join(err, errFile, errDir); err != nil {
		return "", err
	}
	text := string(bytes.TrimSpace(id))
	inFile, _ := identify(file)
	inDir, _ := identify(dir)
	if inFile.dev != inDir.dev {
		text = containerPrefix + text
	}
	return text, nil
}

// uptime returns the uptime of the host, even inside a time namespace.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("sqlitelock: CLOCK_BOOTTIME: " + err.Error()) // exists since Linux 2.6.39
	}
	offset, _ := timeNamespace() // bootID has reported the error
	return time.Duration(ts.Nano()) - offset
}

// timeNamespace returns the offset of this process's time namespace from the host's
// CLOCK_BOOTTIME. It cannot change while the process lives.
var timeNamespace = sync.OnceValues(func() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // a kernel without time namespaces
	}
	// The file has the offsets of the namespace into which children are born.
	own, errOwn := os.Readlink("/proc/self/ns/time")
	children, errChildren := os.Readlink("/proc/self/ns/time_for_children")
	if err := errors.Join(err, errOwn, errChildren); err != nil {
		return 0, err
	}
	if own != children {
		return 0, errors.New("the process made a time namespace for its children, which hides the offset of its own")
	}
	return boottimeOffset(text)
})

// boottimeOffset reads lines such as "boottime  864000  0": clock, seconds, nanoseconds.
func boottimeOffset(text []byte) (time.Duration, error) {
	for line := range strings.Lines(string(text)) {
		var s, ns int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &s, &ns); n == 2 {
			return time.Duration(s)*time.Second + time.Duration(ns), nil
		}
	}
	return 0, errors.New("time namespace: no offset of boottime")
}

// networkFSTypes are the kernel's file systems whose files other machines, or the host of
// a virtual machine, may also have open.
var networkFSTypes = []string{
	"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
	"nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
}

// localFUSE are FUSE file systems that are known to serve only this machine. There are
// too many others to list the shared ones.
var localFUSE = []string{"bindfs", "encfs", "exfat", "fuse-overlayfs", "gocryptfs", "mergerfs", "ntfs-3g", "unionfs"}

// mount decides by the name of the file system. Without /proc it returns nothing: the
// clock reports that it is missing.
func mount(path string) (at, networkFS string) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	at, fsType := mountOf(mounts, path)
	if !isNetworkFS(fsType) {
		fsType = ""
	}
	return at, fsType
}

func isNetworkFS(fsType string) bool {
	name, fuse := strings.CutPrefix(fsType, "fuse.")
	return !fuse && slices.Contains(networkFSTypes, fsType) || fuse && !slices.Contains(localFUSE, name)
}

// mountOf finds the mount that the path is on in lines such as
//
//	36 35 98:0 /root /mount\040point rw,noatime master:1 - ext4 /dev/sda1 rw
//
// with any number of fields before the dash. If several file systems are mounted at
// the same place, the last one counts.
func mountOf(mountinfo []byte, path string) (at, fsType string) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")
	for line := range strings.Lines(string(mountinfo)) {
		mount, source, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !ok || len(fields) < 6 {
			continue
		}
		point := unescape.Replace(fields[4])
		rest, within := strings.CutPrefix(path, point)
		within = within && (rest == "" || rest[0] == '/' || point == "/")
		if within && len(point) >= len(at) {
			at = point
			fsType, _, _ = strings.Cut(source, " ")
		}
	}
	return at, fsType
}

// listen returns a file that becomes readable when a process has written to the named
// file. Equal events that are not yet read count as one.
func listen(file string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, file, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}
