package env

import "testing"

// What the runs around hold is found by its store and its name, whatever these are.
func TestHeldAround(t *testing.T) {
	t.Setenv(HeldVariable, Held("a place", "the outer's", []string{"a b:c\n", "r"}))
	t.Setenv(HeldVariable, Held("elsewhere", "the inner's", []string{"s"}))
	for _, c := range []struct {
		place, resource string
		held            bool
	}{
		{"a place", "a b:c\n", true},
		{"a place", "r", true},
		{"a place", "s", false},
		{"elsewhere", "s", true},
		{"elsewhere", "r", false},
		{"", "", false},
	} {
		if got := IsHeldAround(c.place, c.resource); got != c.held {
			t.Errorf("%q in %q is held around: %v", c.resource, c.place, got)
		}
	}
	for id, around := range map[string]bool{"the outer's": true, "the inner's": true, "r": false, "": false} {
		if got := IsAround(id); got != around {
			t.Errorf("%q is a lock ID around: %v", id, got)
		}
	}
}
