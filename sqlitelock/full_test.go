package sqlitelock

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// A full disk is named, undoes nothing, and is over when there is room again.
func TestFull(t *testing.T) {
	s, _ := newTestStore(t)
	pragma := func(text string) {
		t.Helper()
		if err := s.write(t.Context(), func(c *conn) error { return c.script(text) }); err != nil {
			t.Fatal(err)
		}
	}
	s.mustSwap(t, taken(t, s.mustLoad(t, "held")), true)
	pragma("PRAGMA max_page_count = 12") // of the connection, so as a full disk would be
	var full error
	made := 0
	for ; full == nil && made < 1000; made++ {
		_, full = s.Swap(t.Context(), taken(t, s.mustLoad(t, fmt.Sprint("r", made))))
	}
	t.Log(full)
	if !errors.Is(full, driver.ErrUnusable) || !contains(full, "full") || !contains(full, s.file) {
		t.Fatalf("full: %v", full)
	}
	if e := s.mustLoad(t, fmt.Sprint("r", made-1)); e.Version != 0 {
		t.Error("what failed was made")
	}
	s.mustSwap(t, emptied(s.mustLoad(t, "held")), true)
	pragma("PRAGMA max_page_count = 1000000")
	s.mustSwap(t, taken(t, s.mustLoad(t, fmt.Sprint("r", made-1))), true)
}
