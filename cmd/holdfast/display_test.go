package main

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/gdamore/tcell/v3/vt"
	"golang.org/x/term"
)

// display is a pty with an emulator behind it and a command on it, which is the
// leader of the terminal's session.
type display struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	before *term.State // of the terminal
	screen vt.MockTerm
	cmd    *exec.Cmd
	ended  chan struct{}

	mu   sync.Mutex
	read bytes.Buffer // all that was written to the terminal
}

// Write takes what the command writes to the terminal.
func (c *display) Write(data []byte) (int, error) {
	n, err := c.screen.Write(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read.Write(data)
	return n, err
}

// onTerminal starts a command of the test binary's on a terminal of that size.
func onTerminal(t *testing.T, columns, lines int, name string, args ...string) *display {
	t.Helper()
	c := &display{t: t, ended: make(chan struct{})}
	var err error
	c.master, c.slave, err = pty.Open()
	check(t, err)
	c.screen = vt.NewMockTerm()
	check(t, c.screen.Start())
	c.resize(columns, lines)
	c.before, err = term.GetState(int(c.slave.Fd()))
	check(t, err)
	c.cmd = exec.CommandContext(t.Context(), name, args...)
	c.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "GORACE=atexit_sleep_ms=0", "HOME="+t.TempDir())
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.slave, c.slave, c.slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	check(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // quits looks at the status
		close(c.ended)
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		data := make([]byte, 4096)
		for {
			n, err := c.master.Read(data)
			if n > 0 {
				_, _ = c.Write(data[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = c.slave.Close() // ends the reading of the master
		<-copied
		_ = c.master.Close()
		_ = c.screen.Stop()
	})
	return c
}

func (c *display) resize(columns, lines int) {
	c.t.Helper()
	c.screen.SetSize(vt.Coord{X: vt.Col(columns), Y: vt.Row(lines)})
	check(c.t, pty.Setsize(c.master, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)}))
}

// send types.
func (c *display) send(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// lines is what is on the screen, without spaces at the ends.
func (c *display) lines() []string {
	size := c.screen.Backend().GetSize()
	lines := make([]string, size.Y)
	for y := range lines {
		var b strings.Builder
		for x := vt.Col(0); x < size.X; x++ {
			cell := c.screen.GetCell(vt.Coord{X: x, Y: vt.Row(y)})
			if cell.C == "" {
				cell.C = " "
			}
			b.WriteString(cell.C)
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// text is what is on the screen.
func (c *display) text() string { return strings.Join(c.lines(), "\n") }

// await waits until the screen is as wanted.
func (c *display) await(what string, wanted func() bool) {
	c.t.Helper()
	if !poll(wanted) {
		c.t.Fatalf("%s: not within %v; the screen is\n%s", what, patience, c.text())
	}
}

// shows waits until all the texts are on the screen.
func (c *display) shows(texts ...string) {
	c.t.Helper()
	for _, text := range texts {
		c.await("to show "+text, func() bool { return strings.Contains(c.text(), text) })
	}
}

// printed is what is on the screen, without the empty lines below it.
func (c *display) printed() string { return strings.TrimRight(c.text(), "\n") }

// matches waits until what is printed matches, and returns it.
func (c *display) matches(pattern string) (text string) {
	c.t.Helper()
	want := regexp.MustCompile(pattern)
	c.await("to match "+pattern, func() bool {
		text = c.printed()
		return want.MatchString(text)
	})
	return text
}

// end waits for the end and returns what is printed then.
func (c *display) end() string {
	c.t.Helper()
	c.await("to end", func() bool {
		select {
		case <-c.ended:
			return true
		default:
			return false
		}
	})
	// What the command has written comes before this.
	const last = "\x00"
	if _, err := c.slave.WriteString(last); err != nil {
		c.t.Fatal(err)
	}
	c.await("to be read", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return bytes.HasSuffix(c.read.Bytes(), []byte(last))
	})
	return c.printed()
}

// leaves waits for the end, and wants what is printed then to match.
func (c *display) leaves(pattern string) {
	c.t.Helper()
	if got := c.end(); !regexp.MustCompile(pattern).MatchString(got) {
		c.t.Errorf("in the end the screen shows %q, want %s", got, pattern)
	}
}

// hides waits until the text is not on the screen.
func (c *display) hides(text string) {
	c.t.Helper()
	c.await("to hide "+text, func() bool { return !strings.Contains(c.text(), text) })
}

// quits waits for the end with that status, and wants the terminal as it was.
func (c *display) quits(status int) {
	c.t.Helper()
	c.end()
	if got := c.cmd.ProcessState.ExitCode(); got != status {
		c.t.Errorf("status %d, want %d; the screen is\n%s", got, status, c.text())
	}
	c.restored()
}

// quit types the key that interrupts.
func (c *display) quit() {
	c.t.Helper()
	c.send("\x03")
	c.quits(0)
}

// restored wants the terminal as it was before the command.
func (c *display) restored() {
	c.t.Helper()
	after, err := term.GetState(int(c.slave.Fd()))
	check(c.t, err)
	if !reflect.DeepEqual(after, c.before) {
		c.t.Errorf("the terminal's modes were %+v, and are %+v", c.before, after)
	}
}
