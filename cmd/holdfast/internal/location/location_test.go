package location

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

func locate(t *testing.T, named string) Location {
	t.Helper()
	l, err := Locate(named)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLocate(t *testing.T) {
	state := filepath.Join(t.TempDir(), "50% of #1?")
	t.Setenv("XDG_STATE_HOME", state)
	file := filepath.Join(state, "holdfast", "holdfast.db")
	home := filepath.Join(t.TempDir(), "home of #1")
	t.Setenv("HOME", home)
	for named, want := range map[string]string{
		"local":                              file,
		"sqlite:///a/b%20c.db":               "/a/b c.db",
		"sqlite:/a/b.db":                     "/a/b.db",
		"sqlite:b%23.db?network-fs=allow":    "b#.db",
		"sqlite:link/../b.db":                "b.db", // the one that the store opens, wherever the link leads
		"sqlite:~/b.db?create=no":            filepath.Join(home, "b.db"),
		"/a/b c#%20@1.db":                    "/a/b c#%20@1.db",
		"./b#.db":                            "b#.db",
		"../b.db":                            "../b.db",
		"./redis://u:p@host/0":               "redis:/u:p@host/0",
		"~/a b.db":                           filepath.Join(home, "a b.db"),
		"./~/b.db":                           "~/b.db",
		"redis://u:p@host/0":                 "",
		"sqlite:%zz":                         "",
		"sqlite:///a/b.db?busy-timeout=%35s": "/a/b.db",
	} {
		if l := locate(t, named); l.File != want {
			t.Errorf("%s is the file %q, want %q", named, l.File, want)
		}
	}
	// What the URL of the local store names is the same file.
	l := locate(t, Local)
	client, err := holdfast.Open(t.Context(), l.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if l.Empty() {
		t.Errorf("%s was opened, but there is no %s", l.URL, file)
	}
}

// What is no URL is a path only if that is certain.
func TestLocateRefuses(t *testing.T) {
	for named, says := range map[string]string{
		"locks.db":               "neither a URL nor a path: did you mean ./locks.db or sqlite:locks.db?",
		strings.Repeat("x", 100): "for a SQLite file write sqlite:PATH",
		"a/locks.db":             "did you mean ./a/locks.db or sqlite:a/locks.db?",
		"redis":                  "neither a URL nor a path: write redis://HOSTS/DATABASE",
		"127.0.0.1:6379":         "begins with a scheme, such as redis://",
		"localhost:4653":         "localhost: is no kind of store; if it is a host and a port, write http:// before it",
		"~ada/locks.db":          "neither a URL nor a path",
		"//ada:hunter2@host/db":  "neither a URL nor a path: for a SQLite file write sqlite:PATH",
		"./locks.db?create=no":   "write the URL sqlite:PATH?PARAMETERS",
		"~/locks.db?mode=0660":   "write the URL sqlite:PATH?PARAMETERS",
		"/var/locks.db?mode=660": "write the URL sqlite:PATH?PARAMETERS",
	} {
		_, err := Locate(named)
		e, ok := errors.AsType[*exit.Error](err)
		if !ok || e.Status != exit.Store || !strings.Contains(e.Text, says) || strings.Contains(e.Text, "hunter2") {
			t.Errorf("%s: %v; want %q", named, err, says)
		}
	}
}

// A service has no HOME, and its user's entry counts.
func TestLocalWithoutHome(t *testing.T) {
	u, err := user.Current()
	if err != nil {
		t.Skip("there are no entries:", err)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	want := filepath.Join(u.HomeDir, ".local", "state", "holdfast", "holdfast.db")
	if l, err := Locate(Local); err != nil || l.File != want {
		t.Errorf("%q, %v; want %q", l.File, err, want)
	}
}

// A file that its URL does not let be made is not taken for one that holds nothing.
func TestEmpty(t *testing.T) {
	t.Chdir(t.TempDir())
	for named, want := range map[string]bool{"./none.db": true, "sqlite:none.db": true, "sqlite:none.db?create=no": false} {
		l := locate(t, named)
		if l.Empty() != want {
			t.Errorf("%s is empty: %t", named, !want)
		}
	}
}

func TestNameHasNoSecret(t *testing.T) {
	for url, want := range map[string]string{
		"redis://user:secret@host:6379/0":                "redis://host:6379/0",
		"postgres://host/db?password=secret&x=y#secret":  "postgres://host/db",
		"sqlite:///var/lib/a.db?synchronous=full":        "/var/lib/a.db",
		"mongodb://:secret@one,two/db?replicaSet=secret": "mongodb://one,two/db",
		"mongodb://u:secret@one:27017,two:27018/db?w=1":  "mongodb://one:27017,two:27018/db",
	} {
		l := locate(t, url)
		if got := l.Name(); got != want {
			t.Errorf("%s is called %s, want %s", url, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	l := Location{File: "/a.db"}
	unusable := fmt.Errorf("%w: SQLite file /a.db is damaged", holdfast.ErrUnusable)
	for want, err := range map[string]error{
		"store cannot be used: SQLite file /a.db is damaged. Fix this, or choose another store with --store": fmt.Errorf("holdfast: open %q: %w", "store", unusable),
		"the store /a.db could not be used: no route; too late. Fix this if it does not pass by itself": fmt.Errorf("holdfast: lock %q: %w", "r",
			errors.Join(errors.New("no route"), errors.New("too late"), errors.New("too late"))),
		`the server refuses: no right to lock "r". Whoever runs the server gives rights, in its auth file; without one, this takes its Unix socket (--unix), or the store itself`: fmt.Errorf("holdfast: lock %q: %w", "r",
			wire.NewRefusal(wire.KindDenied, `no right to lock "r"`).Err()),
		"the TTL is too short for this store. Give more time with --ttl":                           fmt.Errorf("holdfast: lock %q: %w", "r", holdfast.ErrTTLTooShort),
		"the store /a.db could not be used: client closed. Fix this if it does not pass by itself": holdfast.ErrClosed,
		"store cannot be used: user is disabled. Fix this, or choose another store with --store": fmt.Errorf("holdfast: open %q: %w", "store",
			fmt.Errorf("%w: user is disabled.", holdfast.ErrUnusable)),
	} {
		got, ok := errors.AsType[*exit.Error](l.Failure(err))
		if !ok || got.Status != exit.Store || got.Text != want {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}
