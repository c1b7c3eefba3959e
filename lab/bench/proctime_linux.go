package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Numbers of fields in /proc/PID/stat, see proc(5).
const (
	statParent = 4
	statUser   = 14 // followed by the system time, and by both times of children that have ended
	statEnded  = 16
)

// processorTimeOf returns the processor time of a process, to 10 ms.
func processorTimeOf(pid int) (time.Duration, error) {
	ticks, err := statOf(pid, statUser, statUser+1)
	return ticksTime(ticks), err
}

// processorTimeOfTree returns the processor time of a process and all its children, including
// ended ones.
func processorTimeOfTree(pid int) (time.Duration, error) {
	ticks, err := statOf(pid, statUser, statUser+1, statEnded, statEnded+1)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	all := ticksTime(ticks)
	for child := range strings.FieldsSeq(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		took, err := processorTimeOf(pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has just ended
			return 0, err
		}
		all += took
	}
	return all, nil
}

func parentOf(pid int) (int, error) {
	fields, err := statOf(pid, statParent)
	if err != nil {
		return 0, err
	}
	return fields[0], nil
}

func statOf(pid int, numbers ...int) (values []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The third field follows the name, which may contain spaces.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	for _, number := range numbers {
		n, err := strconv.Atoi(string(fields[number-3]))
		if err != nil {
			return nil, err
		}
		values = append(values, n)
	}
	return values, nil
}

func ticksTime(ticks []int) (all time.Duration) {
	for _, n := range ticks {
		all += time.Duration(n) * (time.Second / 100)
	}
	return all
}
