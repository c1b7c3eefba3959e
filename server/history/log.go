package history

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Name is that of the server, for those who read the history. Default: the host's name.
	Name string
	// Logger is told once when the storage begins to fail, and once when that is over.
	// Default: nothing is logged.
	Logger *slog.Logger
}

// Log keeps a history. All methods may be called concurrently.
type Log struct {
	opts Options
}

// ErrSlow is returned by what reads a history whose storage does not answer.
var ErrSlow = errors.New("holdfast history: its storage does not answer")

// Events returns the newest events that the query chooses, the newest first.
func (l *Log) Events(ctx context.Context, q Query) ([]Event, error) { return nil, errors.ErrUnsupported }

// Losses returns the newest events since then that are losses, of all resources, the newest
// first: holds that ended without having been released, and those released by force. There are
// at most limit of them; 0 is DefaultLimit.
func (l *Log) Losses(ctx context.Context, since time.Time, limit int) ([]Event, error) {
	return nil, errors.ErrUnsupported
}

// Usual returns how long the resource is usually held.
func (l *Log) Usual(ctx context.Context, resource string) (Usual, error) {
	return Usual{}, errors.ErrUnsupported
}

// State returns how well the history is kept. It does not wait for the storage.
func (l *Log) State() State { return State{} }

// Close writes what was noted before and closes the storage. It waits for a storage that does
// not answer for two seconds at most; what is not written by then is dropped.
func (l *Log) Close() error { return nil }
