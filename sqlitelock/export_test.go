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
	PointBegin      = pointBegin
	PointBegun      = pointBegun
	PointWritten    = pointWritten
	PointCommit     = pointCommit
	PointDone       = pointDone
	PointCheckpoint = pointCheckpoint
	PointPassive    = pointPassive
	PointRestart    = pointRestart
	PointRest       = pointRest
)

// OpenOn opens a store on a machine of the test's.
func OpenOn(ctx context.Context, path string, opts *Options, m Machine) (driver.Store, error) {
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
	s, err := openBackend(ctx, path, opts, sys)
	if err != nil {
		return nil, err
	}
	return base.New(s), nil
}

// OpenToSettle opens a store. settle waits until no checkpoint is under way.
func OpenToSettle(ctx context.Context, path string) (_ driver.Store, settle func(), _ error) {
	s, err := openBackend(ctx, path, nil, thisSystem())
	if err != nil {
		return nil, nil, err
	}
	return base.New(s), s.background.Wait, nil
}
