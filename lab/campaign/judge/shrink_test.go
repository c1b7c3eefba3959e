package judge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
)

// Shrink finds the same violation in the shortest history, and adds no other.
func TestShrink(t *testing.T) {
	var long []history.Event
	for i := range uint64(100) {
		at, who := time.Duration(i)*20*s, fmt.Sprint("before ", i)
		long = append(long, granted(at, who, i+1), refused(at+s, who+" refused"), renewed(at+2*s, who, i+1), released(at+3*s, who, i+1))
	}
	const later = 3000 * s
	for name, c := range map[string]struct {
		wrong []history.Event
		rule  judge.Rule
		left  int
	}{
		"two holders": {
			[]history.Event{granted(later, "a", 1001), renewed(later+s, "a", 1001), granted(later+2*s, "b", 1002), released(later+3*s, "b", 1002)},
			judge.Exclusion, 4,
		},
		"an orphan":     {[]history.Event{refused(later, "a")}, judge.Orphans, 1},
		"a lower token": {[]history.Event{granted(later, "a", 3)}, judge.Tokens, 4}, // and an earlier hold, with its renewal and its release
	} {
		t.Run(name, func(t *testing.T) {
			fails := func(events []history.Event) bool {
				return slices.ContainsFunc(judge.Violations(events, judge.Circumstances{}), func(v judge.Violation) bool { return v.Rule == c.rule })
			}
			short := judge.Shrink(append(slices.Clone(long), c.wrong...), 0, fails)
			if !fails(short) || len(short) != c.left {
				t.Errorf("%d events are left: %+v", len(short), short)
			}
			for _, e := range c.wrong {
				if !slices.Contains(short, e) {
					t.Errorf("gone: %+v", e)
				}
			}
		})
	}
	if got := judge.Shrink(long, 0, func([]history.Event) bool { return false }); len(got) != len(long) {
		t.Errorf("of a history that is right %d events are left", len(got))
	}
}

// Shrink keeps the possible cause of a refusal that it needs.
func TestShrinkKeepsCauses(t *testing.T) {
	events := []history.Event{granted(0, "a", 1), refused(s, "b"), released(2*s, "a", 1)}
	short := judge.Shrink(events, 0, func(events []history.Event) bool {
		return slices.ContainsFunc(events, func(e history.Event) bool { return e.Outcome == history.Held })
	})
	if len(short) != 3 {
		t.Errorf("left: %+v", short)
	}
}
