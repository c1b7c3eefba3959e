//go:build unix

package guard

import (
	"encoding/gob"
	"fmt"
	"io"
	"syscall"
	"time"
)

// inherited is what a guard gets from the program when it starts, in an argument.
type inherited struct {
	socket      int
	cgroup      int // its descriptor; -1: none
	inNamespace bool
}

func (i inherited) String() string { return fmt.Sprint(i.socket, " ", i.cgroup, " ", i.inNamespace) }

func parseInherited(text string) (i inherited, err error) {
	_, err = fmt.Sscan(text, &i.socket, &i.cgroup, &i.inNamespace)
	return i, err
}

// order is what the program sends to the guard.
type order struct {
	Run      *Command
	Deadline time.Duration  // the new one
	End      bool           // ask the command to end
	Kill     bool           // end it at once
	Signal   syscall.Signal // to the command's group
	Done     bool           // the program needs no successor any more
}

// report is what the guard sends to the program.
type report struct {
	Started int           // the command's process ID
	Failed  syscall.Errno // why it could not be started
	Late    bool          // it was not started: its deadline had passed
	Event
}

// receive decodes messages into the channel. It closes the channel when the other
// end was closed or its process has died. The messages are of encoding/gob, which keeps
// strings that are not UTF-8.
func receive[T any](from io.Reader, to chan<- T) {
	defer close(to)
	for d := gob.NewDecoder(from); ; {
		var message T
		if d.Decode(&message) != nil {
			return
		}
		to <- message
	}
}
