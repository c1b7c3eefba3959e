package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// startup is the longest time that a server may take to print its URL.
const startup = 5 * time.Minute

// urlLine matches a line that is a URL; a server may also log URLs within a sentence.
var urlLine = regexp.MustCompile(`^[a-z]+://\S+\n$`)

// process is a server that this process has started. It prints its URL, and ends when its
// standard input ends: the system closes that when this process ends, even if it is killed. So
// no goroutine has to watch it.
type process struct {
	url   string
	cmd   *exec.Cmd
	alive *os.File // the writing end of its standard input

	// For a native server: its own folder, and the signal that crashes it.
	folder string
	crash  os.Signal
}

// launch starts the command of such a server.
func launch(ctx context.Context, name string, args ...string) (_ *process, err error) {
	stdin, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	output, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	defer output.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
	err = cmd.Start()
	stdout.Close()
	if err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	p := &process{cmd: cmd, alive: alive}
	if p.url, err = readURL(output); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s did not start: %w", name, err)
	}
	return p, nil
}

// readURL reads until a line is a URL. Its error contains the other output.
func readURL(output *os.File) (string, error) {
	if err := output.SetReadDeadline(time.Now().Add(startup)); err != nil {
		return "", err
	}
	var said []byte
	part := make([]byte, 4096)
	for {
		n, err := output.Read(part)
		said = append(said, part[:n]...)
		for line := range bytes.Lines(said) {
			if urlLine.Match(line) {
				return strings.TrimSpace(string(line)), nil
			}
		}
		if err != nil {
			return "", fmt.Errorf("%w; it wrote: %s", err, bytes.TrimSpace(said))
		}
	}
}

// end ends the server and removes its data, as the end of this process does.
func (p *process) end() {
	if p.folder != "" {
		p.stop()
		os.RemoveAll(p.folder) // the rest stays in .cache
		return
	}
	p.alive.Close()
	p.wait() //nolint:errcheck // it has ended in any case
}

// stop ends the server at once, as a crash would.
func (p *process) stop() {
	if p.folder == "" {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended
		p.wait()             //nolint:errcheck // it has ended in any case
		p.alive.Close()
		return
	}
	p.cmd.Process.Signal(p.crash) //nolint:errcheck // it may have ended
	p.wait()                      //nolint:errcheck // it has ended in any case
	p.unwatch()
}

// terminate asks a native server to end, and returns when it has ended, with an error if it
// failed.
func (p *process) terminate() error {
	err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.wait())
	p.unwatch()
	return err
}

// unwatch ends the watcher of a native server that has ended, so that its folder stays.
func (p *process) unwatch() {
	p.alive.WriteString("stopped\n") //nolint:errcheck // it may have ended too
	p.alive.Close()
}

// wait returns when the server has ended.
func (p *process) wait() error {
	timer := time.AfterFunc(startup, func() { p.cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer timer.Stop()
	return p.cmd.Wait()
}
