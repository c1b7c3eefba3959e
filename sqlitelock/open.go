// Package sqlitelock keeps locks in a SQLite file, for the processes of one host.
//
// Importing it registers the URL scheme "sqlite":
//
//	sqlite:///var/lib/app/locks.db
//	sqlite:locks.db?synchronous=full&busy-timeout=10s
//
// The file is made if it is missing, with its folder; any number of processes
// may use it at once. It is a file of Holdfast's own: one that another program
// made is refused. It does not belong on a network file system, whose locks and
// shared memory do not hold what SQLite needs of them.
//
// The store's clock is that of the host, and on Linux it is not moved by changes
// of the wall clock: see docs/adr.
package sqlitelock

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

func init() {
	driver.Register("sqlite", func(ctx context.Context, u *url.URL) (driver.Store, error) {
		path, opts, err := parseURL(u)
		if err != nil {
			return nil, err
		}
		return Open(ctx, path, opts)
	})
}

// Traits of every store in a SQLite file.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "sqlite", Reach: driver.Host, ServerClock: true, Notifies: true, Waiters: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict,
	}
}

// Options change what Open does. The zero value is the default.
type Options struct {
	// FullSync makes every change wait for the disk, so that a power loss undoes
	// none. Without it a power loss may undo the last changes, of which only
	// Forever holds and releases can matter afterwards: the processes that held
	// anything died with the machine. The end of a process loses nothing either
	// way.
	FullSync bool
	// BusyTimeout is how long an operation waits for other processes that are
	// writing. Default 5 s.
	BusyTimeout time.Duration
	// AllowNetworkFS allows a file on a network file system. Mutual exclusion
	// then depends on that file system's locks.
	AllowNetworkFS bool
}

const defaultBusyTimeout = 5 * time.Second

// Open opens the file, and makes it if it is missing: the file for its owner
// only (0600), missing folders likewise (0700).
//
// A file that cannot be used is an error that names it and wraps
// driver.ErrUnusable; nothing in it was changed then.
func Open(ctx context.Context, path string, opts *Options) (driver.Store, error) {
	return open(ctx, path, opts, thisSystem())
}

// system is what a store gets from the machine, and what tests put in its place.
type system struct {
	clockSource
	// networkFS returns the type of the network file system that an absolute path
	// without links is on, or "" if it is on none that is known. The path need not
	// exist.
	networkFS func(path string) string
	// hints begins to listen to what is written to a file.
	hints func(file string) (*hints, error)
	// at is told how far a change has come; see point. Nil but in tests.
	at func(point)
}

func open(ctx context.Context, path string, opts *Options, sys system) (driver.Store, error) {
	s, err := openBackend(ctx, path, opts, sys)
	if err != nil {
		return nil, err
	}
	return base.New(s), nil
}

func openBackend(ctx context.Context, path string, opts *Options, sys system) (*store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case o.BusyTimeout < 0:
		return nil, fmt.Errorf("%w: busy time-out %v is negative", driver.ErrInvalid, o.BusyTimeout)
	case o.BusyTimeout == 0:
		o.BusyTimeout = defaultBusyTimeout
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.AllowNetworkFS {
		sys.networkFS = func(string) string { return "" }
	}
	file, err := prepareFile(path, sys.networkFS)
	if err != nil {
		return nil, err
	}
	s := newStore(file, o, sys)
	if err := s.prepare(ctx); err != nil {
		_ = s.Close() // the reason that it could not be prepared says more
		return nil, err
	}
	return s, nil
}
