//go:build unix

package adapters_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/redislock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func TestMain(m *testing.M) {
	if os.Getenv(variable) != "" {
		os.Exit(workerMain())
	}
	goleak.VerifyTestMain(m)
}

// open returns a Client that the test closes at its end.
func open(t *testing.T, url string) *holdfast.Client {
	t.Helper()
	c, err := holdfast.Open(t.Context(), url, &holdfast.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// local returns the URL of a new SQLite store.
func local(t *testing.T) string {
	t.Helper()
	return "sqlite:" + t.TempDir() + "/locks.db"
}

// seize releases the resource by force, as an operator does.
func seize(ctx context.Context, t *testing.T, c *holdfast.Client, resource string) {
	t.Helper()
	if held, err := c.Admin().ForceRelease(context.WithoutCancel(ctx), resource, holdfast.HoldID{}); err != nil || len(held) != 1 {
		t.Errorf("ForceRelease of %q: %d holds, error %v", resource, len(held), err)
	}
}

// wantError fails the test unless err is want, which may be nil.
func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}
