package exit

import (
	"strconv"
	"testing"
)

// Every status of holdfast's own is explained.
func TestStatusesAreExplained(t *testing.T) {
	explained := make(map[string]bool)
	for _, s := range statuses {
		explained[s.status] = true
	}
	for _, status := range []int{
		Failed, Usage, Store, NotAcquired, Lost, Overtime, NotExecutable, NotFound,
	} {
		if !explained[strconv.Itoa(status)] {
			t.Errorf("status %d is not explained", status)
		}
	}
}
