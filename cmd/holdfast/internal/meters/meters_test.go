package meters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestOutcome(t *testing.T) {
	for want, err := range map[string]error{
		"ok":          nil,
		"held":        &driver.HeldError{Resource: "r"},
		"invalid":     driver.ErrInvalid,
		"damaged":     driver.ErrDamaged,
		"unusable":    driver.ErrUnusable,
		"unsupported": driver.ErrUnsupported,
		"canceled":    context.Canceled,
		"timeout":     context.DeadlineExceeded,
		"unknown":     errors.New("connection refused"),
	} {
		if err != nil {
			err = fmt.Errorf("the store: %w", err)
		}
		if got := outcome(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

// Each status of what is refused has a reason of its own.
func TestReasons(t *testing.T) {
	seen := make(map[string]int)
	for _, status := range frontStatuses {
		name := reason(status)
		if other := seen[name]; other != 0 || name == "other" {
			t.Errorf("%d has the reason %q, as %d", status, name, other)
		}
		seen[name] = status
	}
	if got := reason(http.StatusTeapot); got != "other" {
		t.Errorf("a status that nobody has is %s", got)
	}
}
