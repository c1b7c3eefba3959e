package sqlitelock

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/driver/cas"
)

// OpenBackend opens what the store is made of, on a new file.
func OpenBackend(t *testing.T) cas.Backend {
	file, err := prepareFile(filepath.Join(t.TempDir(), "locks.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(file, Options{BusyTimeout: defaultBusyTimeout}, thisSystem())
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
