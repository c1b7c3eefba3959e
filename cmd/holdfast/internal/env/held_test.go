package env

import (
	"slices"
	"testing"
)

// What the runs around hold is found by its store and its name, whatever these are.
func TestAround(t *testing.T) {
	t.Setenv(HeldVariable, Held("a place", "outer", []string{"a b:c\n", "r"}))
	t.Setenv(HeldVariable, Held("elsewhere", "inner", []string{"s"}))
	t.Setenv(HeldVariable, Held("a place", "innermost", []string{"r"}))
	for _, c := range []struct {
		place, resource string
		lockIDs         []string
	}{
		{"a place", "a b:c\n", []string{"outer"}},
		{"a place", "r", []string{"outer", "innermost"}},
		{"a place", "s", nil},
		{"elsewhere", "s", []string{"inner"}},
		{"elsewhere", "r", nil},
		{"", "", nil},
	} {
		if got := Around(c.place, c.resource); !slices.Equal(got, c.lockIDs) {
			t.Errorf("%q in %q: %q, want %q", c.resource, c.place, got, c.lockIDs)
		}
	}
	for id, around := range map[string]bool{"outer": true, "inner": true, "innermost": true, "inne": false, "r": false, "": false} {
		if got := IsAround(id); got != around {
			t.Errorf("%q is a lock ID around: %v", id, got)
		}
	}
}
