package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// queued is how many events may wait to be written: some seconds of a busy server.
	queued = 8192
	// batched is how many bytes are written at once.
	batched = 64 << 10
	// patience is how long Record waits for a disk.
	patience = 5 * time.Second
)

// Log writes events to a file. Its methods may be called concurrently. One goroutine writes,
// in the order in which the events came.
type Log struct {
	path  string
	log   *slog.Logger
	keep  func(*os.File, int64) error // keepRoom, or that of a test
	wake  chan struct{}               // tells the goroutine that something is in the queue
	ended chan struct{}

	mu      sync.Mutex
	queue   []item
	closed  bool
	dropped uint64 // in all
	missing uint64 // of those, what the file was not told yet
	err     error
}

// item is one thing for the goroutine: an event, or a file to write to from now on. If done
// is not nil, it gets the outcome once the event is on the disk.
type item struct {
	event Event
	file  *os.File
	done  chan error
}

// Open opens a file for events, which are appended. A new file can be read by its owner
// alone. The logger, if any, gets why the file cannot be written. The caller closes the Log.
func Open(path string, log *slog.Logger) (*Log, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	l := newLog(path, log)
	go l.newWriter(file).run()
	return l, nil
}

func newLog(path string, log *slog.Logger) *Log {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Log{path: path, log: log, keep: keepRoom, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// openFile opens a regular file: to open or write another one may wait for somebody.
func openFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("audit %s: it is not a regular file", path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return file, nil
}

// kept is how much room on the disk is kept for events that Record writes.
const kept = 1 << 20

// errFull says that there is only that room left.
var errFull = errors.New("the disk is full: only what is done by force is written, in the room that was kept for that")

var (
	errClosed  = errors.New("the audit is closed")
	errTooMany = errors.New("too many events wait to be written to the audit")
)

// Note writes the event soon. It never waits: an event that comes while the queue is full is
// dropped, and counted.
func (l *Log) Note(e Event) {
	if l.put(item{event: stamped(e)}, queued) != nil {
		l.lose(1, 1)
	}
}

// Record writes the event before it returns, so that a crash does not undo it. If it returns
// an error, what the event tells must not be done; the event may be written all the same. It
// waits for five seconds at most.
func (l *Log) Record(ctx context.Context, e Event) error {
	return l.await(ctx, item{event: stamped(e), done: make(chan error, 1)})
}

// Reopen opens the file again, which may be another one now: what rotates logs has renamed
// the old one. If it cannot be opened, events go on into the old one. It waits as Record
// does.
func (l *Log) Reopen() error {
	file, err := openFile(l.path)
	if err != nil {
		return err
	}
	return l.await(context.Background(), item{file: file, done: make(chan error, 1)})
}

// await puts the item into the queue, where it may wait behind events that nobody waits for,
// and returns what became of it.
func (l *Log) await(ctx context.Context, it item) error {
	if err := l.put(it, 2*queued); err != nil {
		if it.file != nil {
			_ = it.file.Close()
		}
		return err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("audit %s: it is not written yet: %w", l.path, ctx.Err())
	}
}

// put puts the item into the queue, unless there are so many.
func (l *Log) put(it item, most int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case len(l.queue) >= most:
		return errTooMany
	}
	l.queue = append(l.queue, it)
	select {
	case l.wake <- struct{}{}:
	default: // it will see this, too
	}
	return nil
}

// take empties the queue.
func (l *Log) take() (all []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.queue = l.queue, nil
	return all
}

// Err returns why the last events could not be written, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Dropped returns how many events are missing in the file.
func (l *Log) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close writes what came before and closes the file. Events that come later are dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.wake)
	}
	l.mu.Unlock()
	<-l.ended
	return l.Err()
}

func stamped(e Event) Event {
	e.Time = time.Now()
	return e
}

// lose counts events that are not in the file, and of how many it is still to tell.
func (l *Log) lose(dropped, missing uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped += dropped
	l.missing += missing
}

// tell returns of how many missing events the file is to tell now.
func (l *Log) tell() (missing uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing, l.missing = l.missing, 0
	return missing
}
