//go:build unix

package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/worker"
)

// process is a worker process.
type process struct {
	number  int
	place   int    // index among the processes that run at the same time
	journal string // or the file with its samples
	command *exec.Cmd
	stdin   io.WriteCloser
	said    bytes.Buffer // its output
	killed  bool
	ended   chan struct{}
	err     error         // how it ended, once ended is closed
	at      time.Duration // when it ended, likewise
}

// start runs a command as a worker.
func start(command []string, folder string, place int, c worker.Config) (*process, error) {
	p := &process{number: c.Process, place: place, journal: filepath.Join(folder, strconv.Itoa(c.Process)), ended: make(chan struct{})}
	if c.Every > 0 {
		c.Samples = p.journal
	} else {
		c.Journal = p.journal
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p.command = exec.CommandContext(context.Background(), command[0], command[1:]...) // it ends with its standard input
	p.command.Env = append(os.Environ(), worker.Variable+"="+string(config))
	p.command.Stdout, p.command.Stderr = &p.said, &p.said
	p.stdin, err = p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.command.Wait()
		p.at = history.Now()
		close(p.ended)
	}()
	return p, nil
}

// step moves the process's wall clock.
func (p *process) step(by time.Duration) error {
	_, err := fmt.Fprintln(p.stdin, by)
	return err
}

func (p *process) signal(s syscall.Signal) error { return p.command.Process.Signal(s) }

// kill kills the process.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	p.killed = true
	return nil
}

// finish tells the process to end, and waits until it has.
func (p *process) finish(limit time.Duration) error {
	if err := p.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(limit):
		_ = p.signal(syscall.SIGQUIT) // prints its goroutines
		<-p.ended
		return errors.New("it did not end")
	}
}
