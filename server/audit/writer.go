package audit

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// run writes what is in the queue until the Log is closed.
func (w *writer) run() {
	l := w.log
	defer close(l.ended)
	for range l.wake {
		for _, it := range l.take() {
			if w.add(it); len(w.lines) >= batched {
				w.flush()
			}
		}
		w.flush()
	}
	w.note(errors.Join(w.err, w.file.Close()))
}

// writer is the state of the goroutine.
type writer struct {
	log   *Log
	file  *os.File
	since int  // bytes that were written since room for events of Record was kept
	full  bool // there is only that room left
	tried time.Time
	torn  bool // the last line in the file may be half of one
	err   error
	lines []byte
	count uint64       // of the lines, without those that tell of missing ones
	told  uint64       // missing events that the lines tell of
	await []chan error // of those that want to know that the lines are on the disk
}

// newWriter returns one for the file, in which it keeps room: the disk may be full before the
// first event.
func (l *Log) newWriter(file *os.File) *writer {
	w := &writer{log: l}
	w.use(file)
	return w
}

func (w *writer) use(file *os.File) {
	w.file, w.torn, w.since, w.tried = file, false, kept, time.Time{}
	w.hasRoom()
}

func (w *writer) add(it item) {
	if it.file != nil {
		w.flush()
		_ = w.file.Close() // what was written there is not better for it
		w.use(it.file)
		it.done <- nil
		return
	}
	if !w.hasRoom() && it.done == nil {
		w.log.lose(1, 1)
		return
	}
	if missing := w.log.tell(); missing > 0 {
		w.lines = appendLine(w.lines, Event{Time: it.event.Time, Action: "audit", Outcome: "dropped", Dropped: missing})
		w.told += missing
	}
	w.lines = appendLine(w.lines, it.event)
	w.count++
	if it.done != nil {
		w.await = append(w.await, it.done)
	}
}

// hasRoom reports whether there is more room than what is kept. It keeps some again once half
// of it may be used up.
func (w *writer) hasRoom() bool {
	if w.since < kept/2 || w.full && time.Since(w.tried) < time.Second {
		return !w.full
	}
	w.tried = time.Now()
	err := w.log.keep(w.file, kept)
	if w.full = err != nil; !w.full {
		w.since = 0
	}
	w.note(err)
	return !w.full
}

// flush writes the lines, and syncs them if somebody waits for that.
func (w *writer) flush() {
	if len(w.lines) == 0 {
		return
	}
	if w.torn {
		w.lines = append([]byte{'\n'}, w.lines...)
	}
	n, err := w.file.Write(w.lines)
	w.since += n
	if err != nil {
		w.torn = w.torn || n > 0
		w.log.lose(w.count, w.count+w.told) // even if some of them were written
	} else {
		w.torn = false
		if len(w.await) > 0 {
			err = w.file.Sync()
		}
	}
	if err != nil {
		err = fmt.Errorf("audit %s: %w", w.log.path, err)
	}
	if err != nil || !w.full {
		w.note(err)
	}
	for _, done := range w.await {
		done <- err
	}
	w.lines, w.await, w.count, w.told = w.lines[:0], nil, 0, 0
}

// note keeps the error for Err, and logs it if it is another one than before.
func (w *writer) note(err error) {
	if err != nil && (w.err == nil || w.err.Error() != err.Error()) {
		w.log.log.Error("events are missing in the audit", "error", err)
	}
	w.err = err
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.err = err
}
