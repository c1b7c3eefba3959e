package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Journal is the file with the events of one process. Each line is written at once, so that it
// outlives the process. Any number of goroutines may use a Journal. A nil Journal records
// nothing.
type Journal struct {
	process int
	mu      sync.Mutex
	file    *os.File
	calls   int
	err     error
}

// line is a call or an answer.
type line struct {
	Call  int   `json:"call"`
	Event Event `json:"event"`
}

// Create creates the journal of a process.
func Create(path string, process int) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{process: process, file: file}, nil
}

// Call records the call of an event. Call the returned function once, with the completed event,
// to record the answer.
func (j *Journal) Call(e Event) (answer func(Event)) {
	if j == nil {
		return func(Event) {}
	}
	e.Process, e.Called, e.Answered, e.Outcome = j.process, Now(), 0, Unknown
	j.mu.Lock()
	j.calls++
	call := j.calls
	j.write(line{call, e})
	j.mu.Unlock()
	return func(answered Event) {
		answered.Process, answered.Called, answered.Answered = j.process, e.Called, Now()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.write(line{call, answered})
	}
}

func (j *Journal) write(l line) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	j.err = errors.Join(j.err, err)
}

// Close closes the file, and returns any earlier error of the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.file.Close())
}

// Read returns the events of a journal whose process ended at the given time. Events without an
// answer are Unknown. Read ignores an incomplete last line, and returns no events if the
// process was killed before it created its journal.
func Read(path string, ended time.Duration) ([]Event, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	events, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range events {
		if events[i].Answered == 0 {
			events[i].Answered = ended
		}
	}
	return events, nil
}

func parse(text []byte) (events []Event, err error) {
	lines := bufio.NewReader(bytes.NewReader(text))
	at := make(map[int]int) // index of each call in events
	for n := 1; ; n++ {
		raw, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		i, again := at[l.Call]
		switch {
		case !again:
			at[l.Call] = len(events)
			events = append(events, l.Event)
		case events[i].Answered != 0:
			return nil, fmt.Errorf("line %d: a second answer to call %d", n, l.Call)
		default:
			events[i] = l.Event
		}
	}
}
