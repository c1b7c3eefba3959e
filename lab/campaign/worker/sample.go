package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Sample is the resource usage of a worker at one moment.
type Sample struct {
	Goroutines int
	Heap       int // bytes of reachable memory
	Resident   int // bytes of memory; 0: not known
	Files      int // open files, including connections; 0: not known
	Locks      int // taken so far
}

// taken counts the locks of this process.
var taken atomic.Int64

// sample writes a Sample per line at each interval.
func sample(ctx context.Context, c Config) (err error) {
	file, err := os.Create(c.Samples)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := json.NewEncoder(file)
	for ticker := time.NewTicker(c.Every); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return nil
		case <-ticker.C:
		}
		if err := lines.Encode(now()); err != nil {
			return err
		}
	}
}

func now() Sample {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s := Sample{Goroutines: runtime.NumGoroutine(), Heap: int(memory.HeapAlloc), Locks: int(taken.Load())}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Files = len(files)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		s.Resident = pages(string(text)) * os.Getpagesize()
	}
	return s
}

// pages returns the second word of /proc/self/statm, or 0.
func pages(statm string) (n int) {
	if words := strings.Fields(statm); len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	return n
}
