package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	topHolds   = 10_000
	topSettles = 3 * time.Second // includes the first looks at the store, and the first screen
	topFor     = 30 * time.Second
)

// measureTop measures the cost of leaving holdfast top running, in a large window and with its
// default interval, on a store in which only the remaining times change.
func measureTop(ctx context.Context, dir string) []result {
	binary := buildCommand(ctx, dir)
	file := filepath.Join(dir, "locks.db")
	hold(ctx, file, topHolds)
	cmd := exec.CommandContext(ctx, binary, "top", "--store", "sqlite://"+file)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	terminal := must(pty.StartWithSize(cmd, &pty.Winsize{Cols: 200, Rows: 50}))
	defer terminal.Close()
	defer undo(cmd.Process.Kill)
	shown := &shown{wanted: strconv.AppendInt(nil, topHolds, 10), found: make(chan struct{})}
	go func() { _, _ = terminal.WriteTo(shown) }() // until top ends, which is an error on Linux
	select {
	case <-shown.found:
	case <-time.After(topFor):
		failf("top did not show %d holds within %v", topHolds, topFor)
	}
	time.Sleep(topSettles)

	start, drawn := time.Now(), shown.size()
	before := must(processorTimeOf(cmd.Process.Pid))
	time.Sleep(scaled(topFor))
	after := must(processorTimeOf(cmd.Process.Pid))
	took, drawn := time.Since(start), shown.size()-drawn
	must(terminal.WriteString("q"))
	if err := cmd.Wait(); err != nil {
		failf("top: %w", err)
	}
	busy := after - before
	return []result{{
		What:  "top, 10,000 holds, share of a core",
		Value: 100 * busy.Seconds() / took.Seconds(),
		Unit:  "%",
		Limit: 5,
		Detail: fmt.Sprintf("user and system time of the process: %v in %.1f s, with the interval it chose; 200 by 50 characters, of which it wrote %.1f kB",
			busy, took.Seconds(), float64(drawn)/1000),
	}}
}

// hold leaves n holds in the file.
func hold(ctx context.Context, file string, n int) {
	store := must(sqlitelock.Open(ctx, file, nil))
	defer finish(store.Close)
	client := holdfast.New(store, &holdfast.Options{LeaveHolds: true})
	defer finish(client.Close)
	for i := range n {
		must(client.TryLock(ctx, fmt.Sprintf("service/%05d/nightly", i),
			&holdfast.LockOptions{TTL: time.Hour, NoKeepAlive: true, Comment: "made for a measurement"}))
	}
}

// shown looks for a text in the output to a terminal.
type shown struct {
	wanted []byte
	found  chan struct{} // closed when the text was found

	mu      sync.Mutex
	written int
	text    []byte // until the text was found
}

func (s *shown) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += len(data)
	if s.wanted != nil {
		s.text = append(s.text, data...)
		if bytes.Contains(s.text, s.wanted) {
			s.wanted, s.text = nil, nil
			close(s.found)
		}
	}
	return len(data), nil
}

func (s *shown) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}
