package meters

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// writeSystem writes what the system knows of the process.
func writeSystem(page *bytes.Buffer) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		spent := usage.Utime.Nano() + usage.Stime.Nano()
		now(page, counter, "process_cpu_seconds_total", "CPU time that the process has used.", float64(spent)/1e9)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident uint64
		if _, err := fmt.Sscan(string(text), &size, &resident); err == nil {
			now(page, gauge, "process_resident_memory_bytes", "Memory of the process that is not paged out.", float64(resident*uint64(os.Getpagesize())))
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		now(page, gauge, "process_open_fds", "Open files and connections.", float64(len(open)))
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		now(page, gauge, "process_max_fds", "Files and connections that may be open.", float64(limit.Cur))
	}
}
