package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// local is the store of whoever names none: a file of this user on this host.
const local = "local"

// location is where the locks are kept.
type location struct {
	url string
	// file is the SQLite file, if it is one.
	file string
	// unasked: nobody named a store.
	unasked bool
}

// storeFlag adds the flag --store and returns what finds out, once the flags are
// parsed, where the locks are.
func storeFlag(cmd *cobra.Command) func() (location, error) {
	cmd.Flags().String("store", "",
		"where the locks are: a `URL` (holdfast stores lists the forms), or local for\n"+
			"this user's file on this host (default local)")
	return func() (location, error) {
		flag := cmd.Flags().Lookup("store")
		named := flag.Value.String()
		switch {
		case !flag.Changed:
			l, err := locate(local)
			l.unasked = true
			return l, err
		case named == "" && byVariable(flag):
			return location{}, usagef("%s is empty; unset it, or set it to a URL or to local", given(flag))
		case named == "":
			return location{}, usagef("--store is empty; give a URL, or local")
		}
		return locate(named)
	}
}

func locate(named string) (location, error) {
	if named == local {
		file, err := localFile()
		if err != nil {
			return location{}, err
		}
		path := filepath.ToSlash(file)
		if !strings.HasPrefix(path, "/") {
			path = "/" + path // C:/Users/ada/...
		}
		return location{url: (&url.URL{Scheme: "sqlite", Path: path}).String(), file: file}, nil
	}
	l := location{url: named}
	u, err := url.Parse(named)
	switch {
	case err != nil: // which would repeat the URL
		return l, exitf(statusStore, "the URL of the store cannot be parsed; holdfast stores shows how it is written")
	case reachOf(u.Scheme) == driver.Process:
		return l, usagef("a store of the scheme %s: ends with the process, and excludes nobody else; "+
			"name one that lasts, or local", u.Scheme)
	case u.Scheme == "sqlite":
		l.file = sqliteFile(u)
	}
	return l, nil
}

// localFile is where the XDG base directory specification wants state to be.
func localFile() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // to be ignored, says the specification
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", exitf(statusStore, "there is no home folder for the local store; set HOME or XDG_STATE_HOME, or name a store with --store")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "holdfast", "holdfast.db"), nil
}

// sqliteFile is the file that a sqlite URL names.
func sqliteFile(u *url.URL) string {
	path := u.Path
	if u.Opaque != "" {
		path, _ = url.PathUnescape(u.Opaque) // relative; empty if malformed
	}
	if drive := strings.TrimPrefix(path, "/"); filepath.VolumeName(drive) != "" {
		path = drive // sqlite:///C:/dir/file.db
	}
	return path
}

// empty reports that the store is a file that nobody has made yet. Looking at it
// would make it.
func (l location) empty() bool {
	if l.file == "" {
		return false
	}
	_, err := os.Stat(l.file)
	return errors.Is(err, fs.ErrNotExist)
}

// name is what the store is called in messages: without what may be secret.
func (l location) name() string {
	if l.file != "" {
		return l.file
	}
	u, err := url.Parse(l.url)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// open returns a client of the store.
func (l location) open(ctx context.Context) (*holdfast.Client, error) {
	client, err := holdfast.Open(ctx, l.url, nil)
	if err != nil {
		return nil, l.failure(err)
	}
	return client, nil
}

// failure is the exit of a command whose store was asked and did not do it.
func (l location) failure(err error) error {
	// The client says what was asked of the store; what the store said is enough.
	text := reason(cmp.Or(errors.Unwrap(err), err))
	switch {
	case errors.Is(err, holdfast.ErrInvalid), errors.Is(err, holdfast.ErrUnusable):
		return exitf(statusStore, "%s. Mend that, or name another store with --store", text)
	case errors.Is(err, holdfast.ErrDamaged), errors.Is(err, holdfast.ErrUnsupported):
		return exitf(statusStore, "%s", text)
	case errors.Is(err, holdfast.ErrTTLTooShort):
		return exitf(statusStore, "%s. Give more time with --ttl", text)
	}
	return exitf(statusStore, "the store %s gave no answer: %s. Try again later", l.name(), text)
}
