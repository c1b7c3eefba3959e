package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/queueless"
	"github.com/holdfast-go/holdfast/driver"
)

// In a store without a queue there is no place, so who names one has named the wrong store.
func TestRequeueNeedsQueue(t *testing.T) {
	f := forced{store: location.Location{URL: queueless.URL}, resource: "r", place: driver.NewPlaceID(), sure: true}
	err := f.requeue(t.Context(), outcome{})
	if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Usage || !strings.HasPrefix(e.Text, "--place needs a store that keeps a queue, and queueless://host keeps none") {
		t.Errorf("got error %v", err)
	}
}
