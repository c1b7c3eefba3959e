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
	"time"

	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// The test process and the tests end with the suite, also tests that ignore signals.
func TestTestsEndWithTheSuite(t *testing.T) {
	was := patience
	defer func() { patience = was }()
	patience = time.Second
	for _, deaf := range []string{"", "yes"} {
		t.Setenv("DEAF", deaf)
		endsWithTheSuite(t)
	}
}

func endsWithTheSuite(t *testing.T) {
	t.Helper()
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
		text, _ = os.ReadFile(file) // the file does not exist before
		return len(text) > 0
	})
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled context", err)
	}
	ask.Until(t, "the test is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}
