//go:build unix && !linux && !darwin

package terminal

import "syscall"

func parent(int) (int, bool) { return 0, false }

func members(int) ([]int, bool) { return nil, false }

func ignores(int, syscall.Signal) bool { return false }
