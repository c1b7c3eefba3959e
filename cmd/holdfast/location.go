package main

import (
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
	named := cmd.Flags().String("store", "",
		"where the locks are: a `URL` (holdfast stores lists the forms), or local for\n"+
			"this user's file on this host (default $HOLDFAST_STORE, else local)")
	return func() (location, error) {
		if cmd.Flags().Changed("store") {
			if *named == "" {
				return location{}, usagef("--store is empty; give a URL, or local")
			}
			return locate(*named)
		}
		if fromEnv, ok := os.LookupEnv("HOLDFAST_STORE"); ok {
			if fromEnv == "" {
				return location{}, usagef("HOLDFAST_STORE is empty; unset it, or set it to a URL or to local")
			}
			return locate(fromEnv)
		}
		l, err := locate(local)
		l.unasked = true
		return l, err
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
	if err != nil {
		return l, nil // whoever opens it says what is wrong
	}
	if reachOf(u.Scheme) == driver.Process {
		return l, usagef("a store of the scheme %s: ends with the process, and excludes nobody else; "+
			"name one that lasts, or local", u.Scheme)
	}
	if u.Scheme == "sqlite" {
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

// open returns a client of the store.
func (l location) open(ctx context.Context) (*holdfast.Client, error) {
	client, err := holdfast.Open(ctx, l.url, nil)
	if err != nil {
		return nil, storeError(err)
	}
	return client, nil
}
