package cli

import (
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// The help of run explains the statuses that run can exit with.
func TestRunExplainsStatuses(t *testing.T) {
	run := newRun().Long
	for _, m := range regexp.MustCompile(`(?m)^  \d+`).FindAllString(exit.HelpOfRun(), -1) {
		if !regexp.MustCompile(`(?m)^` + m + `\b`).MatchString(run) {
			t.Errorf("the help of run has no%s", m)
		}
	}
}
