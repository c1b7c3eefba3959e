package acquire

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/queueless"
)

// What takes a queue is refused in a store without one, before anything is acquired.
func TestNeedsQueue(t *testing.T) {
	r := Request{Store: location.Location{URL: queueless.URL}, Resources: []string{"r"}, forever: true, quiet: true}
	l, err := r.acquire(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	r.NeedsQueue = "--fair"
	_, err = r.acquire(t.Context(), nil)
	if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Usage || !strings.HasPrefix(e.Text, "--fair needs a store that keeps a queue, and queueless://host keeps none") {
		t.Errorf("got error %v", err)
	}
}
