package historycmd

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// A hold that was held for its TTL is shown so, whatever the clocks lack.
func TestHeldRounded(t *testing.T) {
	for held, want := range map[time.Duration]time.Duration{
		29999 * time.Millisecond: 30 * time.Second, 30499 * time.Millisecond: 30 * time.Second,
		2999 * time.Millisecond: 3 * time.Second, 2940 * time.Millisecond: 2900 * time.Millisecond, 9999 * time.Millisecond: 10 * time.Second,
	} {
		if got := length(held); got != want {
			t.Errorf("%v: %s, want %s", held, got, want)
		}
	}
}

// Both times of what looks have seen are shown.
func TestMoment(t *testing.T) {
	at := time.Date(2026, 11, 26, 13, 9, 0, 0, time.Local)
	before, just := at.Add(-time.Minute), at.Add(100*time.Millisecond)
	for want, m := range map[string]wire.PastMoment{
		"2026-11-26 13:09:00":             {After: &at, By: just},
		"2026-11-26 13:08:00 to 13:09:00": {After: &before, By: at},
		"by 2026-11-26 13:09:00":          {By: at},
	} {
		if got := moment(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Those who read the history learn what it does not have.
func TestAbout(t *testing.T) {
	now := time.Date(2026, 11, 26, 13, 9, 0, 0, time.Local)
	gap := func(ago, length time.Duration) wire.HistoryGap {
		return wire.HistoryGap{From: now.Add(-ago), To: new(now.Add(length - ago))}
	}
	k := wire.Kept{
		Server: "one", Since: now.Add(-time.Hour), Removed: new(now.Add(-time.Minute)), Dropped: 2,
		Gaps: []wire.HistoryGap{{From: now.Add(-time.Minute)}, gap(time.Hour, 2*time.Minute), gap(24*time.Hour, time.Second), gap(25*time.Hour, time.Second)},
	}
	want := []string{
		"kept by one since 2026-11-26 12:09:00",
		"not looked between 2026-11-26 13:08:00 and now",
		"not looked between 2026-11-26 12:09:00 and 2026-11-26 12:11:00",
		"not looked between 2026-11-25 13:09:00 and 2026-11-25 13:09:01",
		"and 1 more gap before: --json shows all",
		"the file is full: some of the holds that began by 2026-11-26 13:08:00 are missing",
		"2 beginnings and ends are missing: the file could not be written, or not fast enough",
	}
	if got := about(k); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
