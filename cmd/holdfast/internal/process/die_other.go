//go:build unix && !linux

package process

import "syscall"

func toDefault(syscall.Signal) {}
