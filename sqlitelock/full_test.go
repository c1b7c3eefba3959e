package sqlitelock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A full disk is named, undoes nothing, and is over when there is room again.
func TestFull(t *testing.T) {
	s, _ := newTestStore(t)
	pragma := func(text string) {
		t.Helper()
		if err := s.script(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	held := s.mustTake(t, "held", time.Hour)
	pragma("PRAGMA max_page_count = 12") // of the connection, so as a full disk would be
	var full error
	made := 0
	for ; full == nil && made < 1000; made++ {
		_, full = s.take(t.Context(), fmt.Sprint("r", made), time.Hour)
	}
	t.Log(full)
	if errors.Is(full, driver.ErrUnusable) || !contains(full, "could not grow") || !contains(full, s.file.path) {
		t.Fatalf("full: %v", full)
	}
	last := fmt.Sprint("r", made-1)
	if n := s.count(t, "resource = '"+last+"'"); n != 0 {
		t.Error("what failed was made")
	}
	s.mustGiveUp(t, held)
	pragma("PRAGMA max_page_count = 1000000")
	s.mustTake(t, last, time.Hour)
}
