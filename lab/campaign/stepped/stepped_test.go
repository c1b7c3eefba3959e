package stepped_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/campaign/stepped"
)

// The wall clock moves, and the monotonic clock does not.
func TestTestBinary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "clock")
	if err := stepped.TestBinary(t.Context(), "testdata/clock", program, nil); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if said := strings.TrimSpace(string(out)); err != nil || said != "-1h0m0s 0s" {
		t.Errorf("it says %q, error %v", said, err)
	}
}
