// Package journal has a log for tests that read it while it is being written.
package journal

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Journal is an io.Writer. Its zero value is empty. Its methods may be called concurrently.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes all levels to the journal.
func (j *Journal) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns everything that was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Has reports whether the journal contains the text.
func (j *Journal) Has(text string) bool { return strings.Contains(j.String(), text) }
