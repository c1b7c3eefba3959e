package sqlitelock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

// Machine replaces parts of the machine for a store. A nil field means the real one.
type Machine struct {
	Wall   func() time.Time
	Boot   func() (string, error)
	Uptime func() time.Duration
	// NetworkFS is the type of the network file system that a path is on, or "".
	NetworkFS func(path string) string
	// NoHints means that the system does not report writes to files.
	NoHints bool
	// LongRests means that the watcher looks only when the system reports a write to the
	// file.
	LongRests bool
	// At is called at each Point that is reached, in the goroutine that reached it.
	At func(Point)
}

// Point is a moment in a change.
type Point = point

// The points, in the order of a transaction.
const (
	PointBegin   = pointBegin
	PointBegun   = pointBegun
	PointWritten = pointWritten
	PointCommit  = pointCommit
	PointDone    = pointDone
	PointPassive = pointPassive
	PointRestart = pointRestart
	PointRest    = pointRest
)

// OpenOn opens a store on the machine of a test.
func OpenOn(ctx context.Context, path string, opts *Options, m Machine) (driver.Store, error) {
	s, err := OpenBackend(ctx, path, opts, m)
	if err != nil {
		return nil, err
	}
	return base.New(s), nil
}

// Backend is the implementation of a store.
type Backend = store

// OpenBackend opens it on the machine of a test.
func OpenBackend(ctx context.Context, path string, opts *Options, m Machine) (*Backend, error) {
	sys := thisSystem()
	if m.Wall != nil {
		sys.wall = m.Wall
	}
	if m.Boot != nil {
		sys.boot = m.Boot
	}
	if m.Uptime != nil {
		sys.uptime = m.Uptime
	}
	if m.NetworkFS != nil {
		sys.mount = func(path string) (string, string) { return "", m.NetworkFS(path) }
	}
	if m.NoHints {
		sys.listen = nil
	}
	if m.LongRests {
		sys.restLook = time.Hour
	}
	sys.at = m.At
	return openBackend(ctx, path, opts, sys)
}

// Settle waits until no checkpoint is under way.
func (s *store) Settle() { s.background.Wait() }

// Exec executes a statement on the connection that writes.
func (s *store) Exec(ctx context.Context, text string) error {
	return s.write(ctx, false, func(c *conn) error {
		_, err := c.exec(text)
		return err
	}, nil)
}

// PageSize is the number of records that are read at a time, and IdleSQL finds the
// records that may be due.
const (
	PageSize = pageSize
	IdleSQL  = idleSQL
)
