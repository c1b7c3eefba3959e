//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// What runs the tests ends with the suite, and so do the tests.
func TestTestsEndWithTheSuite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("HANGING", file)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- testModule(ctx, newReport(t.Output()), ".", modules.Module{}, nil, []string{"./testdata/hanging"})
	}()
	var text []byte
	ask.Until(t, "the test begins", func() bool {
		text, _ = os.ReadFile(file) // there is none before
		return len(text) > 0
	})
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the test lives: %v", err)
	}
}
