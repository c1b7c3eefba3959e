package guard

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/tell"
)

// inherited is what a guard gets from the program when it starts, in an argument.
type inherited struct {
	socket      int
	inNamespace bool
}

func (i inherited) String() string { return fmt.Sprint(i.socket, " ", i.inNamespace) }

func parseInherited(text string) (i inherited, err error) {
	_, err = fmt.Sscan(text, &i.socket, &i.inNamespace)
	return i, err
}

// order is what the program sends to the guard.
type order struct {
	Run      *launch        `json:",omitempty"`
	Deadline time.Duration  `json:",omitempty"` // the new one
	End      bool           `json:",omitempty"` // ask the command to end
	Kill     bool           `json:",omitempty"`
	Signal   syscall.Signal `json:",omitempty"` // to the main process
	Group    bool           `json:",omitempty"` // the signal is for its group
	Noted    bool           `json:",omitempty"` // the group has had the signal
	List     bool           `json:",omitempty"` // report what lives
	Done     bool           `json:",omitempty"` // the program needs no successor any more
}

// launch is a Command for JSON. Its strings need not be UTF-8, so they travel as
// bytes.
type launch struct {
	Path       []byte
	Args, Env  [][]byte
	PIDs       []string `json:",omitempty"` // variables that get the process ID
	Deadline   time.Duration
	KillAfter  time.Duration
	Lenient    bool       `json:",omitempty"`
	Foreground bool       `json:",omitempty"`
	Children   Children   `json:",omitempty"`
	Successor  *Successor `json:",omitempty"`
}

// report is what the guard sends to the program.
type report struct {
	Started    int            `json:",omitempty"` // the command's process ID
	Failed     syscall.Errno  `json:",omitempty"` // why it could not be started
	Late       bool           `json:",omitempty"` // it was not started: its deadline had passed
	Unkillable *Unkillable    `json:",omitempty"`
	Stopped    syscall.Signal `json:",omitempty"`
	Continued  bool           `json:",omitempty"`
	MainEnded  *Result        `json:",omitempty"`
	Rest       *Living        `json:",omitempty"`
	Living     *Living        `json:",omitempty"` // the answer to List
	Ended      *Result        `json:",omitempty"`
}

func launchOf(c Command) *launch {
	return &launch{
		Path: []byte(c.Path), Args: bytesOf(c.Args), Env: bytesOf(c.Env), PIDs: c.PIDVariables,
		Deadline: c.Deadline, KillAfter: c.KillAfter, Lenient: c.Lenient, Foreground: c.Foreground,
		Children: c.Children, Successor: c.Successor,
	}
}

func bytesOf(texts []string) [][]byte {
	bs := make([][]byte, len(texts))
	for i, t := range texts {
		bs[i] = []byte(t)
	}
	return bs
}

func stringsOf(bs [][]byte) []string {
	texts := make([]string, len(bs))
	for i, b := range bs {
		texts[i] = string(b)
	}
	return texts
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

// sent returns a channel that closes when all messages are sent.
func (b *outbox[T]) sent() <-chan struct{} {
	if pending := b.calls.Pending(); pending != nil {
		return pending
	}
	none := make(chan struct{})
	close(none)
	return none
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
