package guard

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/tell"
)

// order is what the program sends to the guard.
type order struct {
	Run      *launch
	Deadline time.Duration // the new one
	End      bool          // ask the command to end
	Kill     bool
	Signal   syscall.Signal // to the main process
	Group    bool           // the signal is for its group
	Noted    bool           // the group has had the signal
	Done     bool           // the program needs no successor any more
}

// launch is a Command for JSON. Its strings need not be UTF-8, so they travel as bytes, the
// lists with the NUL that no argument and no variable contains.
type launch struct {
	Command
	Path, Args, Env []byte
}

func launchOf(c Command) *launch {
	list := func(texts []string) []byte { return []byte(strings.Join(texts, nul)) }
	return &launch{Command: c, Path: []byte(c.Path), Args: list(c.Args), Env: list(c.Env)}
}

// command returns the Command that was sent.
func (l *launch) command() *Command {
	c := l.Command
	c.Path, c.Args, c.Env = string(l.Path), strings.Split(string(l.Args), nul), strings.Split(string(l.Env), nul)
	return &c
}

const nul = "\x00"

// report is what the guard sends to the program.
type report struct {
	Started int           // the command's process ID
	Failed  syscall.Errno // why it could not be started
	Late    bool          // it was not started: its deadline had passed
	Event
}

// outbox sends messages in their order. Nobody waits for the other end to read them: it may
// be stopped, and no deadline waits for it.
type outbox[T any] struct {
	to    *json.Encoder
	calls tell.Queue
}

func newOutbox[T any](to io.Writer) *outbox[T] {
	return &outbox[T]{to: json.NewEncoder(to), calls: tell.Queue{Most: math.MaxInt}}
}

func (b *outbox[T]) send(message T) {
	b.calls.Add(func() { _ = b.to.Encode(message) }) // fails only if the other end is gone, which its owner notices
}

// receive decodes messages into the channel. It closes the channel when the other
// end was closed or its process has died.
func receive[T any](from io.Reader, to chan<- T) {
	defer close(to)
	for d := json.NewDecoder(from); ; {
		var message T
		if d.Decode(&message) != nil {
			return
		}
		to <- message
	}
}
