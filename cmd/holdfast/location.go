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
	"github.com/holdfast-go/holdfast/sqlitelock"
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
	cmd.Flags().String("store", "", "where the locks are: a `URL` (holdfast stores lists the forms), local for this user's file "+
		"on this host, or env:NAME or file:PATH if the URL is in a variable or a file (default local)")
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
		storeURL, err := dereference(named)
		if err != nil {
			return location{}, err
		}
		l, err := locate(storeURL)
		if err == nil && storeURL == named && !byVariable(flag) && hasPassword(named) {
			say("others on this machine can see a password on the command line; name the store with HOLDFAST_STORE, " +
				"--store env:NAME or --store file:PATH")
		}
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
	u, err := driver.ParseURL(named)
	switch {
	case err != nil: // which would repeat the URL
		return location{}, exitf(statusStore, "the URL of the store cannot be parsed; holdfast stores shows how it is written")
	case lateAt(named):
		return location{}, exitf(statusStore, "the URL of the store has an @ after the host; in a password write / as %%2F, ? as %%3F and # as %%23, "+
			"elsewhere @ as %%40")
	case len(u.Scheme) < 2: // or it is the letter of a drive
		return location{}, exitf(statusStore, "the store is no URL%s; holdfast stores shows how one is written", sqliteHint(named))
	case reachOf(u.Scheme) == driver.Process:
		return location{}, usagef("a store of the scheme %s: ends with the process, and excludes nobody else; "+
			"name one that lasts, or local", u.Scheme)
	case u.Scheme == "sqlite":
		l.file, _ = sqlitelock.File(u) // what is wrong with it the store says when it is opened
	}
	return l, nil
}

// sqliteHint says how the path of a file becomes a URL. It repeats nothing that may
// have a password in it.
func sqliteHint(path string) string {
	switch {
	case strings.ContainsAny(path, "@?#%") || strings.HasPrefix(path, "//"):
		return ": for a SQLite file write sqlite:PATH"
	case strings.Contains(path, ":"): // C:\locks.db
		return ": for that SQLite file write sqlite:///" + strings.ReplaceAll(path, `\`, "/")
	}
	return ": for that SQLite file write sqlite:" + path
}

// lateAt reports that an @ comes after the host of the URL. It may end a password
// with a character that ended the host too early, so that the password's first
// part would pass for the store's name.
func lateAt(storeURL string) bool {
	_, rest, _ := strings.Cut(storeURL, "://")
	end := strings.IndexAny(rest, "/?#")
	return end > 0 && strings.Contains(rest[end:], "@")
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

// empty reports that the store is a file that nobody has made yet. Looking at it
// would make it.
func (l location) empty() bool {
	if l.file == "" {
		return false
	}
	_, err := os.Lstat(l.file) // a link to nothing is for the store to refuse
	return errors.Is(err, fs.ErrNotExist)
}

// name is what the store is called in messages: without what may be secret.
func (l location) name() string {
	if l.file != "" {
		return l.file
	}
	u, err := driver.ParseURL(l.url)
	if err != nil {
		return ""
	}
	if strings.Contains(u.Path, "@") { // which may end a password with a / too few before it
		u.Path = ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// hide takes the passwords out of what a store said, although no store should
// repeat one. What is shorter cannot be told from other text.
func (l location) hide(text string) string {
	for _, p := range passwords(l.url) {
		if len(p) >= 4 {
			text = strings.ReplaceAll(text, p, "***")
		}
	}
	return text
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
	text := l.hide(reason(cmp.Or(errors.Unwrap(err), err)))
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
