// Package sqlitelock keeps locks in a SQLite file, for the processes of one host.
//
// Importing it registers the URL scheme "sqlite":
//
//	sqlite:///var/lib/app/locks.db
//	sqlite:locks.db?synchronous=full&busy-timeout=10s
//	sqlite:~/locks.db?create=no
//	sqlite:///srv/jobs/locks.db?mode=0660
//
// The store makes the file and its folder if they are missing, unless create=no; any
// number of processes may use it at once. ~ is the home folder of the user. The file is
// Holdfast's own: the store refuses one that another program made. It refuses a network
// file system, because the locks and the shared memory there are not what SQLite requires.
//
// If the file, its log or its shared memory is deleted or replaced while it is in use,
// all operations fail with an error that says so: each change and each read compares
// the files with those that were opened (file.go).
//
// The store's clock is that of the host, and on Linux changes of the wall clock do
// not move it (DESIGN.md, SQLite).
package sqlitelock

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
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

// Traits describes every store in a SQLite file.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "sqlite", Reach: driver.Host, ServerClock: true, Notifies: true, Queue: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict,
	}
}

// Options change what Open does. The zero value is the default.
type Options struct {
	// FullSync makes every change wait for the disk, so that a power loss undoes
	// none. Without it a power loss may undo the last changes. Only Forever holds and
	// releases can matter afterwards, because all holders ended with the machine. In
	// both cases the end of a process loses nothing.
	FullSync bool
	// BusyTimeout is how long an operation waits for other processes that are
	// writing. Default 5 s.
	BusyTimeout time.Duration
	// AllowNetworkFS allows a file on a network file system. Mutual exclusion
	// then depends on that file system's locks.
	AllowNetworkFS bool
	// NoCreate refuses a file that does not exist: a mistyped path would name a new
	// file, which excludes nobody.
	NoCreate bool
	// Mode has the permissions of a file that Open makes, whatever the umask: 0660
	// shares it with the group, 0666 with all users. SQLite gives them to the log and
	// the shared memory too. Users who share the file must be able to make files in its
	// folder, which Open then does not make. Default: 0600.
	Mode fs.FileMode
}

// validMode reports whether all who may use a file of that mode may read and write it, as
// SQLite requires.
func validMode(mode fs.FileMode) bool { return mode == 0o600 || mode == 0o660 || mode == 0o666 }

const wantMode = "want 0600, 0660 or 0666: who uses the file reads and writes it"

const defaultBusyTimeout = 5 * time.Second

// Open opens the file, and makes it if it is missing: the file for its owner
// only (0600), missing folders likewise (0700). Options.NoCreate and Options.Mode change
// that.
//
// If the file cannot be used, the error names it and wraps driver.ErrUnusable, and
// Open has changed nothing in it.
func Open(ctx context.Context, path string, opts *Options) (driver.Store, error) {
	s, err := openBackend(ctx, path, opts, thisSystem())
	if err != nil {
		return nil, err
	}
	return base.New(s), nil
}

// system is what a store uses of the machine; tests replace it. Functions that the
// machine does not support are nil.
type system struct {
	clockSource
	// mount returns where the file system of an absolute path without links is mounted,
	// and its type if it is a network file system, else "". The path need not exist.
	mount func(path string) (at, networkFS string)
	// listen returns a file that can be read from once some process has written to
	// the one that is named.
	listen func(file string) (*os.File, error)
	// restLook is how often to look while listen reports changes.
	restLook time.Duration
	// at is called at each point of a change. Nil except in tests.
	at func(point)
}

// point is a moment in a change, for tests that end the process there.
type point string

// A change passes the points from pointBegin to pointDone. After a change that finds
// the log large comes pointPassive, in a goroutine of its own, and pointRestart if no
// reader was in the way.
const (
	pointBegin   point = "before BEGIN"
	pointBegun   point = "after BEGIN"
	pointWritten point = "after the write"
	pointCommit  point = "before COMMIT" // in SQLite's commit hook: nothing is in the log yet
	pointDone    point = "after COMMIT"
	pointPassive point = "before a passive checkpoint"
	pointRestart point = "before the log restarts"
	pointRest    point = "at rest" // not in a change: the watcher waits for one
)

func (s *store) reach(p point) {
	if s.sys.at != nil {
		s.sys.at(p)
	}
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
	if o.Mode != 0 && !validMode(o.Mode) {
		return nil, fmt.Errorf("%w: mode %#o, %s", driver.ErrInvalid, o.Mode, wantMode)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := prepareFile(path, sys.mount, o)
	if err != nil {
		return nil, err
	}
	s := newStore(file, o, sys)
	if err := s.prepare(ctx); err != nil {
		_ = s.Close() // the caller needs the error of prepare
		return nil, err
	}
	return s, nil
}
