//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// peer is a program that runs a command under a lock, with its measured values.
type peer struct {
	name   string
	args   []string // up to the command
	argv0  string   // argv[0] of the program, if it is not args[0]
	status int      // the expected exit status
	wall   []time.Duration
	cpu    []time.Duration
	memory int64 // in bytes, while it holds the lock
	size   int64 // of the binary, in bytes
}

// once runs the command under the lock. The CPU time includes all processes that it starts, but
// not a server.
func (p *peer) once(ctx context.Context, command ...string) error {
	others, err := children(os.Getpid())
	if err != nil {
		return err
	}
	before, err := childrenTime()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.args[0], append(slices.Clone(p.args[1:]), command...)...)
	if p.status == 0 {
		cmd.Stderr = os.Stderr
	}
	if p.argv0 != "" {
		cmd.Args[0] = p.argv0
	}
	start := time.Now()
	err = cmd.Run()
	wall := time.Since(start)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == p.status {
		err = nil
	}
	if err != nil {
		return err
	}
	left, err := children(os.Getpid())
	if err != nil {
		return err
	}
	for _, pid := range left {
		if !slices.Contains(others, pid) {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil && !errors.Is(err, syscall.ECHILD) {
				return err
			}
		}
	}
	after, err := childrenTime()
	if err != nil {
		return err
	}
	p.wall, p.cpu = append(p.wall, wall), append(p.cpu, after-before)
	return nil
}

// hold measures the memory of the program's processes while it holds the lock, without the
// command's memory.
func (p *peer) hold(ctx context.Context) error {
	path, err := exec.LookPath(p.args[0])
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	p.size = info.Size()

	// The command ends with its standard input.
	cmd := exec.CommandContext(ctx, path, append(slices.Clone(p.args[1:]), "sh", "-c", "echo held; exec cat")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for line := ""; line != "held\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			return err
		}
	}
	p.memory, err = memory(cmd.Process.Pid)
	return errors.Join(err, in.Close(), cmd.Wait())
}

// memory returns the proportional set size of a process and its descendants, except shells and
// cats. It counts a page that several processes share once, in parts.
func memory(pid int) (sum int64, err error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return 0, err
	}
	if n := strings.TrimSpace(string(name)); n == "sh" || n == "cat" {
		return 0, nil
	}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(rollup)) {
		if fields := strings.Fields(line); fields[0] == "Pss:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += kilobytes << 10
		}
	}
	below, err := children(pid)
	for _, child := range below {
		more, childErr := memory(child)
		sum, err = sum+more, errors.Join(err, childErr)
	}
	return sum, err
}

// children returns the children of all threads of a process.
func children(pid int) (pids []int, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		} else if err != nil {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// childrenTime returns the processor time of the children that have ended.
func childrenTime() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// results returns the medians of the runs, and the values that hold measured.
func (p *peer) results(rounds int) []results.Result {
	of := func(what string, v float64, unit, detail string) results.Result {
		return results.Result{Name: "run", What: p.name + ", " + what, Value: v, Unit: unit, Figure: true, Detail: detail}
	}
	detail := fmt.Sprintf("median of %d runs in turns", rounds)
	all := []results.Result{
		of("wall time", milliseconds(p.wall), "ms", detail),
		of("CPU time", milliseconds(p.cpu), "ms", detail+", of all its processes"),
	}
	if p.size > 0 {
		all = append(all,
			of("memory", float64(p.memory)/1e6, "MB", "proportional set size while it holds the lock, without the command"),
			of("binary", float64(p.size)/1e6, "MB", "size of the file"))
	}
	return all
}

// milliseconds returns the median.
func milliseconds(times []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[len(sorted)/2]) / float64(time.Millisecond)
}
