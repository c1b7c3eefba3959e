package httplock_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/front"
)

// The suite over the server's Unix socket, which accepts only root and the server's user,
// as identified by the system.
func TestConformanceOverSocket(t *testing.T) {
	nobody := func(*http.Request) (access.Caller, error) { return nil, access.ErrAnonymous }
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		dir, err := os.MkdirTemp("", "holdfast") //nolint:usetesting // the names of tests are too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, "run", "s")
		l, err := front.ListenUnix(path)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		b := inMemory(t)
		listenAt(t, l, b.open(t), nobody)
		return b.harness(t, dialer("unix://"+path, nil))
	})
}
