package limits

import "syscall"

// storeStatus is exit.Store, which this package cannot import.
const storeStatus = 69

// leastSpace is 0 on 32-bit systems, where the runtime reserves little.
const leastSpace = 2_000_000 << 10 * uint64(^uintptr(0)>>63)

func init() {
	for _, l := range []struct {
		resource int
		least    uint64
		text     string
	}{
		// The runtime reserves up to 1.3 GB on 64-bit systems, and with C threads it fails now
		// and then below 1.7 GB.
		{syscall.RLIMIT_AS, leastSpace, "address space (ulimit -v) is below 2000000 KiB"},
		{syscall.RLIMIT_NOFILE, 12, "open files (ulimit -n) is below 12"},
	} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &limit); err == nil && limit.Cur < l.least {
			_, _ = syscall.Write(2, []byte("holdfast: the limit of "+l.text+", too little for holdfast; raise it\n"))
			syscall.Exit(storeStatus)
		}
	}
}
