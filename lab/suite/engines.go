package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// engines is a process that starts servers for tests, once for all modules, when one of
// them asks.
type engines struct {
	started chan struct{} // closed when the variable is set by which tests find it
	err     error
	alive   io.Closer
	cmd     *exec.Cmd
}

// goStartEngines starts to start it: it has to be compiled.
func goStartEngines(ctx context.Context, root string) *engines {
	e := &engines{started: make(chan struct{})}
	go func() {
		defer close(e.started)
		e.err = e.start(ctx, root)
	}()
	return e
}

// wait returns when tests that ask for servers can begin.
func (e *engines) wait() error {
	<-e.started
	return e.err
}

// stop ends the process and its servers; so does the end of this process.
func (e *engines) stop() {
	<-e.started
	if e.cmd != nil {
		e.alive.Close()
		e.cmd.Wait() //nolint:errcheck // its servers are gone in any case
	}
}

func (e *engines) start(ctx context.Context, root string) error {
	up := filepath.Join(root, ".cache", "engines", "up")
	dir := filepath.Join(root, "lab")
	if missing, err := missingDependencies(ctx, dir); missing != "" || err != nil {
		return err // what is missing is told when the tests are to be run
	}
	if _, err := modules.Output(ctx, dir, "go", "build", "-o", up, "./engines/up"); err != nil {
		return err
	}
	cmd := modules.Command(ctx, dir, up, "-ask")
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.cmd, e.alive = cmd, alive
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return fmt.Errorf("%s: %w", up, err)
	}
	return os.Setenv("HOLDFAST_TEST_ENGINES", strings.TrimSpace(line))
}
