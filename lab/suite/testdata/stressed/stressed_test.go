package stressed

import (
	"os"
	"testing"
)

// TestOnce passes once.
func TestOnce(t *testing.T) {
	file, err := os.OpenFile(os.Getenv("STRESSED"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal("ran before: ", err)
	}
	file.Close()
}
