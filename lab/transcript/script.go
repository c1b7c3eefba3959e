package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// step is a line of a script. The lines are:
//
//	# COMMENT
//	+ COMMAND        runs and is not shown
//	~ COMMAND        runs until it succeeds and is not shown
//	NAME$ COMMAND    runs in terminal NAME and is shown with its output;
//	                 NAME may be empty
//	NAME& COMMAND    the same, but the next line does not wait for its end
type step struct {
	line     string
	kind     byte // one of + ~ $ &
	terminal string
	command  string
}

var stepLine = regexp.MustCompile(`^(?:([+~])|([a-z0-9]*)([$&])) (.+)$`)

func parse(script string) ([]step, error) {
	var steps []step
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := stepLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%q: want a line that begins with #, +, ~, NAME$ or NAME&", line)
		}
		steps = append(steps, step{line: line, kind: (m[1] + m[3])[0], terminal: m[2], command: m[4]})
	}
	return steps, nil
}

const (
	// patience limits how long a ~ line is tried.
	patience = 20 * time.Second
	// pause is the pause between two tries.
	pause = 20 * time.Millisecond
)

// play runs the steps in a new home folder. It returns the output of all terminals, in the
// order in which it appeared.
func play(ctx context.Context, steps []step, bin, home string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The commands write to the file directly, without a pipe: output that was written before a
	// ~ line succeeded comes before the output of later lines.
	screen, err := os.OpenFile(home+".screen", os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer screen.Close()
	var background []func() error
	for _, s := range steps {
		cmd := shell(ctx, s.command, bin, home)
		if s.kind == '$' || s.kind == '&' {
			fmt.Fprintf(screen, "%s$ %s\n", s.terminal, s.command)
			cmd.Stdout, cmd.Stderr = screen, screen
		}
		var err error
		switch s.kind {
		case '+':
			err = prepare(cmd)
		case '~':
			err = await(ctx, s.command, bin, home)
		case '$':
			err = endOf(cmd.Run())
		case '&':
			err = cmd.Start()
			background = append(background, func() error { return endOf(cmd.Wait()) })
		}
		if err != nil {
			shown, _ := os.ReadFile(screen.Name())
			return "", fmt.Errorf("%s: %w\nshown so far:\n%s", s.line, err, shown)
		}
	}
	for _, wait := range background {
		if err := wait(); err != nil {
			return "", err
		}
	}
	shown, err := os.ReadFile(screen.Name())
	return string(shown), err
}

// endOf returns nil for a command that ran, whatever its exit status: a script prints the
// status if it matters.
func endOf(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return nil
	}
	return err
}

func prepare(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func await(ctx context.Context, command, bin, home string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := shell(ctx, command, bin, home).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("did not succeed within %v: %w: %s", patience, err, out)
		case <-time.After(pause):
		}
	}
}

// shell runs a command like a user who has just logged in, with holdfast in PATH.
func shell(ctx context.Context, command, bin, home string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + home,
		"XDG_STATE_HOME=" + home + "/.local/state",
		"USER=" + os.Getenv("USER"),
		"LC_ALL=C",
	}
	cmd.WaitDelay = time.Second
	return cmd
}
