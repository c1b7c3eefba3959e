//go:build unix

package engines

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLeftDataAreRemoved(t *testing.T) {
	running := NewRedis(t)
	parent := filepath.Dir(running.folder)
	lock := func(folder string, age time.Duration) {
		t.Helper()
		file := filepath.Join(folder, lockName)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	left, fresh := filepath.Join(parent, Name()), filepath.Join(parent, Name())
	defer os.RemoveAll(left)
	defer os.RemoveAll(fresh)
	lock(running.folder, 3*time.Hour)
	lock(left, 2*time.Hour)
	lock(fresh, time.Minute)
	NewRedis(t)
	for folder, want := range map[string]bool{running.folder: true, left: false, fresh: true} {
		if got := exists(folder); got != want {
			t.Errorf("%s is there: %t, want %t", folder, got, want)
		}
	}
}
