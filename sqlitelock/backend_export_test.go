package sqlitelock

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
)

// OpenBackend opens what the store is made of, on a new file.
func OpenBackend(t *testing.T) base.Backend {
	return OpenBackendOn(t, filepath.Join(t.TempDir(), "locks.db"))
}

// OpenBackendOn opens it on the file of that name.
func OpenBackendOn(t *testing.T, path string) base.Backend {
	s, err := openBackend(t.Context(), path, nil, thisSystem())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
