//go:build !linux

package main

import (
	"errors"
	"runtime"
	"time"
)

func processorTimeOf(int) (time.Duration, error) {
	return 0, errors.New("the processor time of another process cannot be measured on " + runtime.GOOS)
}
