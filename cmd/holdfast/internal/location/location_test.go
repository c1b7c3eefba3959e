package location

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func TestLocate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("other paths")
	}
	state := filepath.Join(t.TempDir(), "50% of #1?")
	t.Setenv("XDG_STATE_HOME", state)
	file := filepath.Join(state, "holdfast", "holdfast.db")
	for named, want := range map[string]string{
		"local":                              file,
		"sqlite:///a/b%20c.db":               "/a/b c.db",
		"sqlite:/a/b.db":                     "/a/b.db",
		"sqlite:b%23.db?network-fs=allow":    "b#.db",
		"sqlite:link/../b.db":                "b.db", // the one that the store opens, wherever the link leads
		"redis://u:p@host/0":                 "",
		"sqlite:%zz":                         "",
		"sqlite:///a/b.db?busy-timeout=%35s": "/a/b.db",
	} {
		l, err := Locate(named)
		if err != nil {
			t.Errorf("%s: %v", named, err)
		}
		if l.File != want {
			t.Errorf("%s is the file %q, want %q", named, l.File, want)
		}
	}
	// What the URL of the local store names is the same file.
	l, err := Locate(Local)
	if err != nil {
		t.Fatal(err)
	}
	client, err := l.Open(t.Context())
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

func TestNameHasNoSecret(t *testing.T) {
	for url, want := range map[string]string{
		"redis://user:secret@host:6379/0":                "redis://host:6379/0",
		"postgres://host/db?password=secret&x=y#secret":  "postgres://host/db",
		"sqlite:///var/lib/a.db?synchronous=full":        "/var/lib/a.db",
		"mongodb://:secret@one,two/db?replicaSet=secret": "mongodb://one,two/db",
		"mongodb://u:secret@one:27017,two:27018/db?w=1":  "mongodb://one:27017,two:27018/db",
	} {
		l, err := Locate(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Name(); got != want {
			t.Errorf("%s is called %s, want %s", url, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	l := Location{File: "/a.db"}
	unusable := fmt.Errorf("%w: SQLite file /a.db is damaged", holdfast.ErrUnusable)
	for want, err := range map[string]error{
		"store cannot be used: SQLite file /a.db is damaged. Fix that, or name another store with --store": fmt.Errorf("holdfast: open %q: %w", "store", unusable),
		"the store /a.db gave no answer: no route; too late. Try again later": fmt.Errorf("holdfast: lock %q: %w", "r",
			errors.Join(errors.New("no route"), errors.New("too late"), errors.New("too late"))),
		"the TTL is too short for this store. Give more time with --ttl": fmt.Errorf("holdfast: lock %q: %w", "r", holdfast.ErrTTLTooShort),
		"the store /a.db gave no answer: client closed. Try again later": holdfast.ErrClosed,
	} {
		got, ok := errors.AsType[*exit.Error](l.Failure(err))
		if !ok || got.Status != exit.Store || got.Text != want {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}
