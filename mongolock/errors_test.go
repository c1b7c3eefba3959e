package mongolock

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The error says why no server can be reached, and contains no password.
func TestUnreached(t *testing.T) {
	store, err := driver.Open(t.Context(), "mongodb://ada:hunter2@127.0.0.1:1/app?serverSelectionTimeoutMS=100&directConnection=true")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	err = store.(driver.Initializer).Init(t.Context())
	if err == nil || errors.Is(err, driver.ErrUnusable) {
		t.Fatalf("error %v", err)
	}
	text := err.Error()
	if !strings.HasPrefix(text, "MongoDB collection app.locks: no primary can be reached: 127.0.0.1:1: dial tcp") {
		t.Errorf("error %q", text)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("the password is in error %q", text)
	}
}
