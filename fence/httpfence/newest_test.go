package httpfence_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

func TestMemory(t *testing.T) {
	var m httpfence.Memory
	for _, step := range []struct {
		resource string
		token    uint64
		want     error
		newest   uint64
	}{
		{"a", 5, nil, 5},
		{"a", 5, nil, 5},
		{"a", 4, holdfast.ErrStale, 5},
		{"b", 4, nil, 4},
		{"a", 0, holdfast.ErrInvalid, 5},
		{"a", driver.MaxToken + 1, holdfast.ErrInvalid, 5},
		{"", 6, holdfast.ErrInvalid, 0},
		{"a", driver.MaxToken, nil, driver.MaxToken},
	} {
		if err := m.Raise(t.Context(), step.resource, step.token); !errors.Is(err, step.want) {
			t.Errorf("%q to %d: error %v, want %v", step.resource, step.token, err, step.want)
		}
		if newest, err := m.Load(t.Context(), step.resource); newest != step.newest || err != nil {
			t.Errorf("%q to %d: then %d, error %v, want %d", step.resource, step.token, newest, err, step.newest)
		}
	}
}
