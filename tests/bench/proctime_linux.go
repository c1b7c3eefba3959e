package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// processorTimeOf is how long a process has kept processors busy, to 10 ms.
func processorTimeOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// What comes after the name, which may have spaces, begins with the third
	// field; the 14th and 15th are the times in user and in system mode.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	ticks := 0
	for _, field := range fields[14-3 : 15-3+1] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100), nil
}
