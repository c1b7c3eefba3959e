package proc

import (
	"bytes"
	"os"
	"strconv"
)

// Name returns the name of the process: that of its program, cut to 15 bytes, or one that
// it has given itself. It is empty if it cannot be read.
func (p Process) Name() string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/comm")
	return string(bytes.TrimSuffix(name, []byte("\n")))
}

// UID returns the user whose rights the process has, or -1 if that cannot be read.
func (p Process) UID() int {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	_, rest, _ := bytes.Cut(status, []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	const effective = 1
	if ids := bytes.Fields(line); len(ids) > effective {
		if uid, err := strconv.Atoi(string(ids[effective])); err == nil {
			return uid
		}
	}
	return -1
}
