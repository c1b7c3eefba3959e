package env

import (
	"slices"
	"testing"
)

// What the runs around hold is found by its name, whatever that is.
func TestAround(t *testing.T) {
	t.Setenv(HeldVariable, Held("outer", []string{"a b:c\n", "r"}))
	t.Setenv(HeldVariable, Held("inner", []string{"s"}))
	t.Setenv(HeldVariable, Held("innermost", []string{"r"}))
	for _, c := range []struct {
		resource string
		lockIDs  []string
	}{
		{"a b:c\n", []string{"outer"}},
		{"r", []string{"outer", "innermost"}},
		{"s", []string{"inner"}},
		{"", nil},
	} {
		if got := Around(c.resource); !slices.Equal(got, c.lockIDs) {
			t.Errorf("%q: %q, want %q", c.resource, got, c.lockIDs)
		}
	}
	for id, around := range map[string]bool{"outer": true, "inner": true, "innermost": true, "inne": false, "r": false, "": false} {
		if got := IsAround(id); got != around {
			t.Errorf("%q is a lock ID around: %v", id, got)
		}
	}
}
