package main

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func init() {
	if filepath.Base(os.Args[0]) == "leaderless" {
		runtime.LockOSThread() // keeps main on the main thread
	}
}

// leaderless is a daemon whose main thread ends while another goes on: the system shows it
// as a zombie. It locks the file that is named, and then makes it longer.
func leaderless() {
	f, err := os.OpenFile(os.Args[1], os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := syscall.Setsid(); err != nil {
		panic(err)
	}
	go func() {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[1]+".locked", nil, 0o600); err != nil {
			panic(err)
		}
		time.Sleep(20 * time.Second)
		os.Exit(0)
	}()
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread
}
