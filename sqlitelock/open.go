// Package sqlitelock keeps locks in a SQLite file, for the processes of one host.
//
// Importing it registers the URL scheme "sqlite":
//
//	sqlite:///var/lib/app/locks.db
//	sqlite:locks.db?synchronous=full&busy-timeout=10s
//	sqlite:~/locks.db?create=no
//	sqlite:///srv/jobs/locks.db?mode=0660
//
// The store creates the file and its folder if they are missing, unless create=no. Any
// number of processes may use it at once. ~ is the home folder of the user. The file is
// Holdfast's own: the store refuses a file of another program. It refuses a network file
// system, because locks and shared memory do not work there as SQLite requires.
//
// If the file, its log or its shared memory is deleted or replaced while it is in use,
// all operations fail with an error that says so: each change and each read compares the
// files with the opened ones (file.go).
//
// The store's clock is the clock of the host. On Linux, changes of the wall clock do not
// move it, see DESIGN.md#sqlite.
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

// Traits returns the traits of every store in a SQLite file.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "sqlite", Reach: driver.Host, ServerClock: true, Notifies: true, Queue: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict,
	}
}

// Options are the optional settings of Open. The zero value has the defaults.
type Options struct {
	// FullSync makes every change wait for the disk, so that a power loss undoes none.
	// Without it a power loss may undo the last changes. Afterwards only Forever holds
	// and releases can matter, because all holders ended with the machine. In both cases
	// the end of a process loses nothing.
	FullSync bool
	// BusyTimeout is how long an operation waits for other processes that write. Default:
	// 5 s.
	BusyTimeout time.Duration
	// AllowNetworkFS allows a file on a network file system. Mutual exclusion
	// then depends on that file system's locks.
	AllowNetworkFS bool
	// NoCreate refuses a file that does not exist: a mistyped path would create a new
	// file, which excludes nobody.
	NoCreate bool
	// Mode has the permissions of a file that Open creates, whatever the umask: 0660
	// shares it with the group, 0666 with all users. SQLite gives the same to the log and
	// the shared memory. Users who share the file must be able to create files in its
	// folder, which Open then does not create. Default: 0600.
	Mode fs.FileMode
}

// validMode reports whether all users who may use a file of this mode may read and write
// it, as SQLite requires.
func validMode(mode fs.FileMode) bool { return mode == 0o600 || mode == 0o660 || mode == 0o666 }

const wantMode = "want 0600, 0660 or 0666: who uses the file reads and writes it"

const defaultBusyTimeout = 5 * time.Second

// Open opens the file, and creates it and its folders if they are missing, for the owner
// only (0600 and 0700). Options.NoCreate and Options.Mode change that.
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

// system is the part of the machine that a store uses; tests replace it. Functions that
// the machine does not support are nil.
type system struct {
	clockSource
	// mount returns where the file system of an absolute path without links is mounted,
	// and its type if it is a network file system, else "". The path need not exist.
	mount func(path string) (at, networkFS string)
	// listen returns a file that becomes readable when a process has written to the named
	// file.
	listen func(file string) (*os.File, error)
	// restLook is the time between two looks while listen reports changes.
	restLook time.Duration
	// at is called at each point of a change. Nil except in tests.
	at func(point)
}

// point is a moment in a change, for tests that end the process there.
type point string

// A change passes the points from pointBegin to pointDone. After a change that finds a
// large log, pointPassive follows in a goroutine of its own, and pointRestart if no
// reader was in the way.
const (
	pointBegin   point = "before BEGIN"
	pointBegun   point = "after BEGIN"
	pointWritten point = "after the write"
	pointCommit  point = "before COMMIT" // in SQLite's commit hook: nothing is in the log yet
	pointDone    point = "after COMMIT"
	pointPassive point = "before a passive checkpoint"
	pointRestart point = "before the log restarts"
	pointRest    point = "at rest" // outside a change: the watcher waits for one
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
