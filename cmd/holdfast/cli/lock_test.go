package cli

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/memlock"
)

// A lock whose ID was printed stays, and one whose ID may not have been heard is
// released.
func TestHandOver(t *testing.T) {
	signals := func(sent ...os.Signal) <-chan os.Signal {
		c := make(chan os.Signal, 1)
		for _, sig := range sent {
			c <- sig
		}
		return c
	}
	closed, _, err := os.Pipe() // to write to its reading end fails
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	for name, c := range map[string]struct {
		out     io.Writer
		signals <-chan os.Signal
		status  int
		text    string // it ends so
	}{
		"printed": {io.Discard, signals(), 0, ""},
		"signal":  {io.Discard, signals(syscall.SIGTERM), exit.Signaled + 15, "stopped by a signal (terminated); the lock was released again"},
		"unheard": {closed, signals(), exit.Failed, "; the lock was released again"},
	} {
		t.Run(name, func(t *testing.T) {
			store := memlock.New(nil)
			client := holdfast.New(store, &holdfast.Options{LeaveHolds: true})
			hold, err := client.Lock(t.Context(), "r", &holdfast.LockOptions{NoKeepAlive: true})
			if err != nil {
				t.Fatal(err)
			}
			err = new(grab).handOver(acquire.Lease{Client: client, Holds: []*holdfast.Hold{hold}}, c.out, c.signals)
			status, text := 0, ""
			if e, ok := errors.AsType[*exit.Error](err); ok {
				status, text = e.Status, e.Text
			}
			if status != c.status || !strings.HasSuffix(text, c.text) {
				t.Errorf("exit %d, %q; want %d, %q", status, text, c.status, c.text)
			}
			_, err = holdfast.New(store, nil).TryLock(t.Context(), "r", nil)
			if free := err == nil; free != (c.status != 0) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
