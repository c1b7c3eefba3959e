package sqlitelock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/driver"
)

// thisSystem uses CLOCK_BOOTTIME, which no change of the wall clock moves and
// which goes on while the machine sleeps.
func thisSystem() system {
	return system{
		clockSource: clockSource{wall: time.Now, boot: bootID, uptime: uptime},
		networkFS:   networkFS,
		hints:       newHints,
	}
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		_, err = timeNamespace()
	}
	if err != nil {
		// Another clock would be wrong beside processes that read this one.
		return "", fmt.Errorf("%w: the clock of the host cannot be read, which all processes must share: %w",
			driver.ErrUnusable, err)
	}
	return string(bytes.TrimSpace(id)), nil
}

// uptime is that of the host also inside a time namespace.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("sqlitelock: CLOCK_BOOTTIME: " + err.Error()) // there since Linux 2.6.39
	}
	offset, _ := timeNamespace() // bootID reported the error
	return time.Duration(ts.Nano()) - offset
}

// timeNamespace returns what this process's time namespace adds to the host's
// CLOCK_BOOTTIME. It cannot change while the process lives.
var timeNamespace = sync.OnceValues(func() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // a kernel without time namespaces
	}
	if err != nil {
		return 0, err
	}
	// The offsets are those of the namespace that children are born into.
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		return 0, err
	}
	children, err := os.Readlink("/proc/self/ns/time_for_children")
	if err != nil {
		return 0, err
	}
	if own != children {
		return 0, errors.New("the process made a time namespace for its children, which hides the offset of its own")
	}
	return boottimeOffset(text)
})

// boottimeOffset reads lines such as "boottime  864000  0": clock, seconds,
// nanoseconds.
func boottimeOffset(text []byte) (time.Duration, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != "boottime" {
			continue
		}
		s, errS := strconv.ParseInt(fields[1], 10, 64)
		ns, errNS := strconv.ParseInt(fields[2], 10, 64)
		if err := errors.Join(errS, errNS); err != nil {
			return 0, fmt.Errorf("time namespace: %w", err)
		}
		return time.Duration(s)*time.Second + time.Duration(ns), nil
	}
	return 0, errors.New("time namespace: no offset of boottime")
}
