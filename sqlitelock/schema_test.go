package sqlitelock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// Somebody drops a table of a file in use. A retry would not help.
func TestMissingTable(t *testing.T) {
	path := newFile(t)
	store := open(t, path)
	rawExec(t, raw(t, path), "DROP TABLE resources")
	_, err := store.Acquire(t.Context(), driver.AcquireRequest{
		Resource: "r", LockID: "id", HoldID: driver.NewHoldID(), TTL: driver.MaxTTL,
	})
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrUnusable", err)
	}
}
