package main

import (
	"regexp"
	"strconv"
	"testing"
)

// Every status of holdfast's own is explained, those of run by its help too.
func TestStatusesAreExplained(t *testing.T) {
	explained := make(map[string]bool)
	for _, s := range statuses {
		explained[s.status] = true
	}
	for _, status := range []int{
		statusFailed, statusUsage, statusStore, statusNotAcquired, statusLost, statusNotExecutable, statusNotFound,
	} {
		if !explained[strconv.Itoa(status)] {
			t.Errorf("status %d is not explained", status)
		}
	}
	run := newRun().Long
	for _, m := range regexp.MustCompile(`(?m)^  \d+`).FindAllString(runStatuses(), -1) {
		if !regexp.MustCompile(`(?m)^` + m + `\b`).MatchString(run) {
			t.Errorf("the help of run has no%s", m)
		}
	}
}
