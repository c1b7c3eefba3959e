package main

import (
	"path/filepath"
	"runtime"
	"testing"
)

func TestLocate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("other paths")
	}
	state := filepath.Join(t.TempDir(), "50% of #1?")
	t.Setenv("XDG_STATE_HOME", state)
	file := filepath.Join(state, "holdfast", "holdfast.db")
	for named, want := range map[string]string{
		"local":                   file,
		"sqlite:///a/b%20c.db":    "/a/b c.db",
		"sqlite:/a/b.db":          "/a/b.db",
		"sqlite:b%23.db?x=y":      "b#.db",
		"redis://u:p@host/0":      "",
		"://":                     "",
		"sqlite:%zz":              "",
		"sqlite:///a/b.db?x=%2fz": "/a/b.db",
	} {
		l, err := locate(named)
		if err != nil {
			t.Errorf("%s: %v", named, err)
		}
		if l.file != want {
			t.Errorf("%s is the file %q, want %q", named, l.file, want)
		}
	}
	// What the URL of the local store names is the same file.
	l, err := locate(local)
	if err != nil {
		t.Fatal(err)
	}
	client, err := l.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if l.empty() {
		t.Errorf("%s was opened, but there is no %s", l.url, file)
	}
}
