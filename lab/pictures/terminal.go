//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// The size of the pictures in characters. The last column stays empty: a drawing of it would
// reach into the next frame.
const (
	columns = 80
	lines   = 20
)

// The user and the host in the pictures, as in transcripts.
const (
	stableUser = "ada"
	stableHost = "web1"
	// shown is the path of the recording's folder for all recorded programs.
	shown = "/srv"
)

const (
	// patience limits how long a test waits for expected output.
	patience = 30 * time.Second
	// stroke is the pause between two keys.
	stroke = 45 * time.Millisecond
	// last is how long the end of a recording is shown.
	last = 3 * time.Second
)

// terminal is tmux on a pty. It records all output.
type terminal struct {
	ctx    context.Context
	folder string // HOME of the shells
	env    []string
	cmd    *exec.Cmd
	master *os.File
	read   chan struct{} // closed when all was read

	mu     sync.Mutex
	began  time.Time
	events []event
	rest   []byte // the incomplete character at the end of the last chunk
	screen []byte // everything that was printed
	seen   int    // end of the output that until has matched
}

// event is a piece of output.
type event struct {
	at   float64
	data string
}

// openTerminal starts tmux with one shell in the folder, on a host named stableHost.
func openTerminal(ctx context.Context, folder, bin string) (*terminal, error) {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	t := &terminal{ctx: ctx, folder: folder, read: make(chan struct{}), env: []string{
		"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + shown, "USER=" + stableUser, "HOLDFAST_OWNER=" + stableUser,
		"HOLDFAST_STORE=sqlite://" + shown + "/locks.db", "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC", "SHELL=/bin/bash",
	}}
	config := folder + ".conf"
	if err := os.WriteFile(config, []byte(`set -g status off
set -g default-terminal "screen-256color"
set -g default-command "PS1='$ ' exec bash --noprofile --norc"
set -g escape-time 0
set -g pane-border-status off
set -g pane-border-format " #{pane_title} "
set -g pane-border-style fg=brightblack
set -g pane-active-border-style fg=brightblack
set -g allow-rename off
set -g destroy-unattached on
bind -n F1 select-pane -t 0
bind -n F2 select-pane -t 1
bind -n F3 set -g pane-border-status top \; select-pane -T "one terminal" \; split-window -l 50% \; select-pane -T "another terminal" \; select-pane -t 0
`), 0o600); err != nil {
		return nil, err
	}
	t.cmd = t.on(stableHost, "tmux", "-S", folder+".tmux", "-f", config, "new-session")
	master, err := pty.StartWithSize(t.cmd, &pty.Winsize{Rows: lines, Cols: columns - 1})
	if err != nil {
		return nil, err
	}
	t.master = master
	go t.record()
	if err := t.until(`\$ `); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.restart()
	return t, nil
}

// record reads the output until tmux ends.
func (t *terminal) record() {
	defer close(t.read)
	chunk := make([]byte, 1<<16)
	for {
		n, err := t.master.Read(chunk)
		t.mu.Lock()
		t.screen = append(t.screen, chunk[:n]...)
		data := append(t.rest, chunk[:n]...) //nolint:gocritic // rest is replaced below
		whole := len(data)
		for whole > 0 && whole > len(data)-utf8.UTFMax && !utf8.Valid(data[:whole]) {
			whole--
		}
		if whole > 0 {
			t.events = append(t.events, event{time.Since(t.began).Seconds(), string(data[:whole])})
		}
		t.rest = bytes.Clone(data[whole:])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// restart begins the recording with the current screen, without the output of the start of
// tmux.
func (t *terminal) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var before strings.Builder
	for _, e := range t.events {
		before.WriteString(e.data)
	}
	t.events, t.began = []event{{0, before.String()}}, time.Now()
}

// close ends the recording, and then tmux and everything in it.
func (t *terminal) close() error {
	t.mu.Lock()
	t.events = append(t.events, event{time.Since(t.began).Seconds() + last.Seconds(), ""})
	recorded := len(t.events)
	t.mu.Unlock()
	_ = t.cmd.Process.Kill() // a session without a terminal ends
	<-t.read
	_ = t.cmd.Wait() // it was killed
	t.events = t.events[:recorded]
	return t.master.Close()
}

// save writes the recording as an asciicast of version 2.
func (t *terminal) save(file string) error {
	var out bytes.Buffer
	encode := json.NewEncoder(&out)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(map[string]int{"version": 2, "width": columns, "height": lines}); err != nil {
		return err
	}
	for _, e := range t.events {
		if err := encode.Encode([]any{e.at, "o", e.data}); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// on prepares a command on a host with that name, where shown is the folder.
func (t *terminal) on(host string, command ...string) *exec.Cmd {
	const there = `mount --bind "$1" "$2" && hostname "$3" && cd "$2" && shift 3 && exec "$@"`
	cmd := exec.CommandContext(t.ctx, "unshare", append([]string{"--uts", "--mount", "sh", "-c", there, "sh", t.folder, shown, host}, command...)...)
	cmd.Env = t.env
	return cmd
}

// script writes a command for the shells.
func (t *terminal) script(name, text string) error {
	return os.WriteFile(filepath.Join(t.folder, name), []byte(text), 0o755)
}

// The keys that scenes press.
const (
	enter       = "\r"
	firstPane   = "\x1bOP" // F1
	secondPane  = "\x1bOQ" // F2
	splitWindow = "\x1bOR" // F3
)

// press presses all keys at once.
func (t *terminal) press(keys string) error {
	_, err := t.master.WriteString(keys)
	return err
}

// typeLine types a line as a person does.
func (t *terminal) typeLine(line string) error {
	for _, key := range line {
		if err := t.press(string(key)); err != nil {
			return err
		}
		time.Sleep(stroke)
	}
	time.Sleep(4 * stroke)
	return t.press(enter)
}

// until waits for output that matches, after the output that matched before.
func (t *terminal) until(pattern string) error {
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		t.mu.Lock()
		rest := t.screen[t.seen:]
		if at := re.FindIndex(rest); at != nil {
			t.seen += at[1]
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not printed: %q", pattern, rest)
		}
	}
}
