// Package follow keeps up with files that are replaced while a server runs.
package follow

import (
	"log/slog"
	"sync"
	"time"
)

// Period is how often files are read: a few microseconds' work, after which no trick with
// their times or a link can hide a change.
const Period = time.Second

// Files are files that are followed. All methods may be called concurrently.
type Files struct {
	done chan struct{}
	work sync.WaitGroup

	mu  sync.Mutex
	err error // why the files as they are now are not in force
}

// Start reads the files every second until Close, and applies what they have if that is not
// what is in force. What cannot be read or applied leaves that in force, and is logged once.
func Start[T comparable](inForce T, read func() (T, error), apply func(T) error, log *slog.Logger) *Files {
	f := &Files{done: make(chan struct{})}
	f.work.Go(func() {
		ticker := time.NewTicker(Period)
		defer ticker.Stop()
		for {
			select {
			case <-f.done:
				return
			case <-ticker.C:
			}
			now, err := read()
			if err == nil && now != inForce {
				if err = apply(now); err == nil {
					inForce = now
				}
			}
			if before := f.note(err); err != nil && (before == nil || before.Error() != err.Error()) {
				log.Error("what was read before stays in force", "error", err)
			}
		}
	})
	return f
}

// note keeps why the files are not in force, and returns why they were not before.
func (f *Files) note(err error) (before error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.err = f.err, err
	return before
}

// Err returns nil if the files are in force as they are now, and otherwise why they are not.
func (f *Files) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close stops reading the files. What is in force remains so.
func (f *Files) Close() {
	close(f.done)
	f.work.Wait()
}
