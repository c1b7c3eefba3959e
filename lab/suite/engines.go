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

// engines is a process that starts servers for the tests of all modules. It starts a server
// when a test asks for one.
type engines struct {
	started chan struct{} // closed when HOLDFAST_TEST_ENGINES is set, or start has failed
	err     error
	alive   io.Closer
	cmd     *exec.Cmd
}

// goStartEngines compiles and starts the process in the background.
func goStartEngines(ctx context.Context, root string) *engines {
	e := &engines{started: make(chan struct{})}
	go func() {
		defer close(e.started)
		e.err = e.start(ctx, root)
	}()
	return e
}

// wait returns when tests that need servers can begin.
func (e *engines) wait() error {
	<-e.started
	return e.err
}

// stop ends the process and its servers. They also end with this process.
func (e *engines) stop() {
	<-e.started
	if e.cmd != nil {
		e.alive.Close()
		e.cmd.Wait() //nolint:errcheck // its servers end in any case
	}
}

func (e *engines) start(ctx context.Context, root string) error {
	up := filepath.Join(root, ".cache", "engines", "up")
	dir := filepath.Join(root, "lab")
	if missing, err := missingDependencies(ctx, dir); missing != "" || err != nil {
		return err // missing dependencies are reported when the tests are to run
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
