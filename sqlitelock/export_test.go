package sqlitelock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

// Machine is what a store gets from the machine. A nil field means the real one.
type Machine struct {
	Wall   func() time.Time
	Boot   func() (string, error)
	Uptime func() time.Duration
	// NetworkFS is the type of the network file system that a path is on, or "".
	NetworkFS func(path string) string
	// NoHints: the system does not tell of writing to files.
	NoHints bool
	// LongRests: the watcher looks only when the system tells of writing to the file.
	LongRests bool
	// At is called at each Point that is reached, in the goroutine that is there.
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

// OpenOn opens a store on a machine of the test's.
func OpenOn(ctx context.Context, path string, opts *Options, m Machine) (driver.Store, error) {
	s, err := OpenBackend(ctx, path, opts, m)
	if err != nil {
		return nil, err
	}
	return base.New(s), nil
}

// Backend is what a store is made of.
type Backend = store

// OpenBackend opens it on a machine of the test's.
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

// PageSize is how many records are read at a time, and IdleSQL how those are found that
// may be due.
const (
	PageSize = pageSize
	IdleSQL  = idleSQL
)
