package cli

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/memlock"
)

// A lock whose ID is printed while a signal comes is released again.
func TestHandOverInterrupted(t *testing.T) {
	store := memlock.New(nil)
	client := holdfast.New(store, &holdfast.Options{LeaveHolds: true})
	hold, err := client.Lock(t.Context(), "r", &holdfast.LockOptions{NoKeepAlive: true})
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	err = new(grab).handOver(acquire.Lease{Client: client, Holds: []*holdfast.Hold{hold}}, io.Discard, signals)
	const text = "stopped by a signal (terminated); the lock was released again"
	if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Signaled+15 || e.Text != text {
		t.Errorf("got error %v", err)
	}
	if _, err := holdfast.New(store, nil).TryLock(t.Context(), "r", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
