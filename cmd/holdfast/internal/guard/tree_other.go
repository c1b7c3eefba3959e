//go:build unix && !linux

package guard

import "syscall"

const adopting = false

func adoptOrphans() {}

func rename(string) {}

func dieWithParent(*syscall.SysProcAttr) {}

// signalTree sends the signal to the process group. Who left it is not found.
func signalTree(group int, sig syscall.Signal) { _ = syscall.Kill(-group, sig) }

// treeLives reports whether the process group has a member.
func treeLives(group int) bool { return syscall.Kill(-group, 0) == nil }

// signalBelow has no way to find the descendants of another process.
func signalBelow(int, int, syscall.Signal) {}
