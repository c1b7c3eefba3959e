// Package location finds out where the locks are kept, and opens that store.
package location

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/internal/storeurl"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/words"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// Local is the default store: a file of this user on this host.
const Local = "local"

// Location is where the locks are kept.
type Location struct {
	URL string
	// File is the SQLite file, if it is one.
	File string
	// Unasked: no store was named, so it is the local one.
	Unasked bool
}

// Locate returns the location of the store that a URL, the path of a SQLite file, or Local
// names.
func Locate(named string) (Location, error) {
	if named == Local {
		file, err := localFile()
		if err != nil {
			return Location{}, err
		}
		return Location{URL: fileURL(file).String(), File: file}, nil
	}
	if isPath(named) {
		if strings.Contains(named, "?") {
			return Location{}, exit.Errorf(exit.Store, "the path of a store has no parameters; write the URL sqlite:PATH?PARAMETERS, and %%3F for a ? in a name")
		}
		named = fileURL(named).String()
	}
	l := Location{URL: named}
	u, err := driver.ParseURL(named)
	switch {
	case err != nil: // not shown, because it repeats the URL
		return Location{}, exit.Errorf(exit.Store, "the URL of the store cannot be parsed; it begins with a scheme, such as redis:// or http://, and / in a secret is %%2F, ? is %%3F, # is %%23. holdfast stores shows how to write it")
	case u.Scheme == "":
		return Location{}, exit.Errorf(exit.Store, "the store is neither a URL nor a path%s holdfast stores shows how to write one", sqliteHint(named))
	case (u.Scheme != "sqlite" || u.Host != "") && storeurl.Misplaced(u) != nil: // the path of a file may have an @
		return Location{}, exit.Errorf(exit.Store, "the URL of the store has an %v", storeurl.Misplaced(u))
	case isPort(u.Opaque) && !slices.Contains(driver.Schemes(), u.Scheme): // the port is not shown: it may be a password
		return Location{}, exit.Errorf(exit.Store, "%s: is no kind of store; if it is a host and a port, write http:// before it, and https:// for another machine",
			u.Scheme)
	case kindOf(u.Scheme).EndsWithProcess():
		return Location{}, exit.Usagef("a store of the scheme %s: ends with the process, and excludes nobody else; "+
			"name one that lasts, or local", u.Scheme)
	case u.Scheme == "sqlite":
		// The store reports errors when it is opened. It takes a .. out of the path before
		// it follows links, as Clean does.
		if file, err := sqlitelock.File(u); err == nil {
			l.File = filepath.Clean(file)
		}
	}
	return l, nil
}

// isPath reports whether the value of --store is the path of a SQLite file instead of a
// URL. // begins what is left of a URL without its scheme, which may hold a password.
func isPath(named string) bool {
	return !strings.HasPrefix(named, "//") &&
		slices.ContainsFunc([]string{"/", "./", "../", "~/"}, func(start string) bool { return strings.HasPrefix(named, start) })
}

// fileURL returns the URL of a SQLite file.
func fileURL(path string) *url.URL {
	if filepath.IsAbs(path) {
		return &url.URL{Scheme: "sqlite", Path: path}
	}
	return &url.URL{Scheme: "sqlite", Opaque: (&url.URL{Path: path}).EscapedPath()} // relative, or in the home folder
}

// isPort reports whether the text is that of a port.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// sqliteHint returns how to write the path of a file, or the name of a kind of store, as
// a URL. It repeats nothing that may contain a password.
func sqliteHint(path string) string {
	form := kindOf(path).Form
	switch {
	case form != "":
		return ": write " + form + ";"
	case len(path) > 64 || strings.ContainsAny(path, "@?#% ~") || strings.HasPrefix(path, "//") || path == "." || path == "..":
		return ": for a SQLite file write sqlite:PATH;"
	}
	return ": did you mean ./" + path + " or sqlite:" + path + "?"
}

// rootFile is the local store's file of a root without a home folder, as in a container
// without a database of users.
const rootFile = "/var/lib/holdfast/holdfast.db"

// localFile returns the local store's file, in the folder that the XDG base
// directory specification has for state.
func localFile() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) { // the specification says to ignore others
		return filepath.Join(state, "holdfast", "holdfast.db"), nil
	}
	file, err := sqlitelock.File(fileURL("~/.local/state/holdfast/holdfast.db"))
	switch {
	case err == nil:
		return file, nil
	case os.Geteuid() == 0:
		return rootFile, nil
	}
	return "", exit.Errorf(exit.Store, "there is no home folder for the local store; set HOME or XDG_STATE_HOME, or name a store with --store")
}

// parsed returns the URL, which Locate has parsed before.
func (l Location) parsed() *url.URL {
	u, err := driver.ParseURL(l.URL)
	if err != nil {
		return new(url.URL)
	}
	return u
}

// Empty reports whether the store is a file that does not exist yet. To open the
// store would create it, or be refused if its URL says so.
func (l Location) Empty() bool {
	if l.File == "" || l.parsed().Query().Get("create") == "no" {
		return false
	}
	_, err := os.Lstat(l.File) // Lstat, so that the store refuses a dangling link
	return errors.Is(err, fs.ErrNotExist)
}

// Existing returns the URL of the store that does not create a file.
func (l Location) Existing() string {
	if l.File == "" {
		return l.URL
	}
	u := l.parsed()
	values := u.Query()
	values.Set("create", "no")
	u.RawQuery = values.Encode()
	return u.String()
}

// Name returns the name of the store for messages, without secrets.
func (l Location) Name() string {
	if l.File != "" {
		return l.File
	}
	u := l.parsed()
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Title is the Name, with where it comes from if nobody gave it.
func (l Location) Title() string {
	if l.Unasked {
		return l.Name() + ", this user's on this host, since none is named"
	}
	return l.Name()
}

// Hide removes the passwords from the text of a store's error, although no store
// should repeat one.
func (l Location) Hide(text string) string { return storeurl.Hide(text, l.parsed()) }

// Open returns a client of the store. It creates no file: of one that is not there it returns a
// client of a store in memory, in which nothing is held either.
func (l Location) Open(ctx context.Context) (*holdfast.Client, error) {
	if l.Empty() {
		return holdfast.New(memlock.New(nil), nil), nil
	}
	client, err := holdfast.Open(ctx, l.URL, nil)
	if err != nil {
		return nil, l.Failure(err)
	}
	return client, nil
}

// IsServer reports whether the locks are in the store of a server.
func (l Location) IsServer() bool {
	return kindOf(l.parsed().Scheme).Varies()
}

// Driver returns the store itself, for a server.
func (l Location) Driver(ctx context.Context) (driver.Store, error) {
	store, err := driver.Open(ctx, l.URL)
	if err != nil {
		return nil, l.Failure(fmt.Errorf("driver: %w", err))
	}
	return store, nil
}

// Failure returns the exit for an operation that failed in the store.
func (l Location) Failure(err error) error {
	// Without the client's prefix, which names the operation.
	text := l.Hide(output.Reason(cmp.Or(errors.Unwrap(err), err)))
	switch {
	case errors.Is(err, httplock.ErrDenied):
		// It is no trouble of the store's.
		text = strings.Replace(text, holdfast.ErrUnusable.Error()+": ", "", 1)
		return exit.Errorf(exit.Store, "%s. Whoever runs the server gives rights, in its auth file; without one, this takes its "+
			"Unix socket (--unix), or the store itself", text)
	case errors.Is(err, holdfast.ErrInvalid), errors.Is(err, holdfast.ErrUnusable):
		return exit.Errorf(exit.Store, "%s. Fix this, or choose another store with --store", text)
	case errors.Is(err, holdfast.ErrDamaged), errors.Is(err, holdfast.ErrUnsupported):
		return exit.Errorf(exit.Store, "%s", text)
	case errors.Is(err, holdfast.ErrTTLTooShort):
		return exit.Errorf(exit.Store, "%s. Give more time with --ttl", text)
	}
	return exit.Errorf(exit.Store, "the store %s could not be used: %s. Fix this if it does not pass by itself", l.Name(), text)
}

// Flag returns the --store flag for a command line that the user may copy. It is
// empty for the default store, and if the URL may contain a secret.
func (l Location) Flag() string {
	named := l.URL
	if l.File != "" {
		file, err := filepath.Abs(l.File)
		if err != nil {
			return ""
		}
		named = fileURL(file).String()
	}
	if l.Unasked || l.File == "" && l.Name() != l.URL {
		return ""
	}
	return " --store " + words.ShellQuoted(named)
}

// Lasting reports whether the error lasts until its cause is fixed, so that a retry
// is pointless.
func Lasting(err error) bool {
	return errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, holdfast.ErrUnusable) ||
		errors.Is(err, holdfast.ErrUnsupported) || errors.Is(err, holdfast.ErrDamaged) ||
		errors.Is(err, holdfast.ErrTTLTooShort)
}
