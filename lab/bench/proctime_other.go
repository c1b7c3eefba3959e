//go:build !linux

package main

import (
	"errors"
	"runtime"
	"time"
)

var errProcesses = errors.New("the processor time of another process cannot be measured on " + runtime.GOOS)

func processorTimeOf(int) (time.Duration, error) { return 0, errProcesses }

func processorTimeOfTree(int) (time.Duration, error) { return 0, errProcesses }

func parentOf(int) (int, error) { return 0, errProcesses }
