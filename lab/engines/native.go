package engines

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// watch is the script that starts a server and ends it with this process.
//
//go:embed watch.sh
var watch string

// native is an ordinary server program: it does not print its URL, and does not end with its
// standard input.
type native struct {
	name   string
	folder string // its own existing folder; removed when this process ends
	// command returns the program and its arguments for a port.
	command func(port int) ([]string, error)
	env     []string // in addition to this process's
	url     func(port int) string
	// crash is the signal that ends the program at once, without any work on its data.
	crash syscall.Signal
	// unprivileged means that the program refuses to run as root.
	unprivileged bool
	// ready returns why the program with this process ID does not answer yet. Another program
	// may have the port.
	ready func(ctx context.Context, pid, port int) error
}

// addressTaken is part of the message of a program whose port is taken.
const addressTaken = "in use"

// start starts the server at a port, or at a free one for 0.
func (n native) start(ctx context.Context, port int) (*process, error) {
	if port != 0 {
		return n.startAt(ctx, port)
	}
	for attempt := 0; ; attempt++ {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		p, err := n.startAt(ctx, port)
		if err == nil || attempt == 5 || !strings.Contains(strings.ToLower(err.Error()), addressTaken) {
			return p, err
		}
	}
}

func (n native) startAt(ctx context.Context, port int) (_ *process, err error) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		return nil, missing{"sh is missing: servers other than Java programs start on Unix only"}
	}
	command, err := n.command(port)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(n.folder, "log"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	stdin, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	// Nothing is written to this pipe. It is closed when the program ends.
	ended, running, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	defer ended.Close()
	lock, err := lockFolder(ctx, n.folder)
	if err != nil {
		return nil, errors.Join(err, alive.Close(), running.Close())
	}
	defer lock.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), sh, append([]string{"-c", watch, "watch", n.folder, strconv.Itoa(int(n.crash))}, command...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdin, log, log, []*os.File{running, lock}
	cmd.Dir, cmd.Env = n.folder, slices.Concat(os.Environ(), []string{"LC_ALL=C"}, n.env) // another locale may not be installed
	if n.unprivileged {
		cmd.SysProcAttr = unprivileged()
	}
	err = cmd.Start()
	running.Close()
	if err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	p := &process{url: n.url(port), cmd: cmd, alive: alive, folder: n.folder, crash: n.crash}
	if err := n.await(ctx, p, ended, port); err != nil {
		p.stop()
		said, _ := io.ReadAll(io.NewSectionReader(log, 0, 1<<20)) // without a log, the error is shorter
		return nil, fmt.Errorf("%s did not start: %w; it wrote: %s", n.name, err, strings.TrimSpace(string(said)))
	}
	return p, nil
}

// await returns when the server answers, or with the reason why it does not.
func (n native) await(ctx context.Context, p *process, ended *os.File, port int) error {
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	for {
		if err := ended.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			return err
		}
		if _, err := ended.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("it ended")
		}
		err := n.ready(ctx, p.cmd.Process.Pid, port)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// freePort returns a port of the loopback interface without a listener. It is outside of the
// range for outgoing connections: otherwise a client of a stopped server might get the server's
// port, so that the server could not start again.
func freePort(ctx context.Context) (int, error) {
	var err error
	for range 100 {
		port := 12000 + rand.IntN(10000)
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port is free: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// poll repeats try until it succeeds, or returns the last error when ctx ends.
func poll(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
