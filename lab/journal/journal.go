// Package journal is a log that a test reads while it is written.
package journal

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Journal is an io.Writer. Its zero value is empty; all methods may be called
// concurrently.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger writes everything to the journal.
func (j *Journal) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String is all that was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Has says that the text was written.
func (j *Journal) Has(text string) bool { return strings.Contains(j.String(), text) }
