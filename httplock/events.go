package httplock

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// The events of a watch.
const (
	readyEvent  = "ready"
	signalEvent = "signal"
	endEvent    = "end"
)

const maxEventLine = 4 << 10

// events reads a stream of events (text/event-stream of the HTML standard). Only the
// names of events matter here.
type events struct {
	lines *bufio.Scanner
	alive func() // called for each line, comments included
}

func newEvents(from io.Reader, alive func()) *events {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 512), maxEventLine)
	return &events{lines, alive}
}

var errCut = errors.New("the stream was cut off")

// next returns the name of the next complete event.
func (e *events) next() (name string, err error) {
	complete := false
	for e.lines.Scan() {
		e.alive()
		field, value, _ := strings.Cut(e.lines.Text(), ":")
		switch {
		case e.lines.Text() == "":
			if complete {
				return name, nil
			}
		case field == "event":
			name, complete = strings.TrimPrefix(value, " "), true
		}
	}
	if err := e.lines.Err(); err != nil {
		return "", err
	}
	return "", errCut
}
