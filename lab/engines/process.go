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

// startup is the longest that a server may take until it says where it is.
const startup = 5 * time.Minute

// urlLine is a line that is one; a server may log others in the midst of a sentence.
var urlLine = regexp.MustCompile(`^[a-z]+://\S+\n$`)

// process is a server that was started by this process. It writes its URL as the
// first line, and ends when its standard input does: the system closes that when
// this process ends, even if it was killed. No goroutine looks after it.
type process struct {
	url   string
	cmd   *exec.Cmd
	alive *os.File // the writing end of its standard input

	// Of a native server: the folder of its own, and what makes it crash.
	folder string
	crash  os.Signal
}

// launch starts a command that is such a server.
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

// readURL reads until a line is a URL. What else was written is in the error.
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

// end ends the server as the end of this process would: its data go, too.
func (p *process) end() {
	if p.folder != "" {
		p.stop()
		os.RemoveAll(p.folder) // what is left is in .cache
		return
	}
	p.alive.Close()
	p.wait() //nolint:errcheck // it is gone in any case
}

// stop ends the server at once, as a crash would.
func (p *process) stop() {
	if p.folder == "" {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended
		p.wait()             //nolint:errcheck // it is gone in any case
		p.alive.Close()
		return
	}
	p.cmd.Process.Signal(p.crash) //nolint:errcheck // it may have ended
	p.wait()                      //nolint:errcheck // it is gone in any case
	p.unwatch()
}

// terminate asks a native server to end. It returns when it is gone, with an error if it
// failed.
func (p *process) terminate() error {
	err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.wait())
	p.unwatch()
	return err
}

// unwatch is for a native server that is gone, while its folder stays. What watches over it
// is to do so until then.
func (p *process) unwatch() {
	p.alive.WriteString("stopped\n") //nolint:errcheck // that may be gone, too
	p.alive.Close()
}

// wait returns when the server is gone.
func (p *process) wait() error {
	timer := time.AfterFunc(startup, func() { p.cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer timer.Stop()
	return p.cmd.Wait()
}
