package historycmd

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// A hold that was held for its TTL is shown so, whatever the clocks lack.
func TestHeldRounded(t *testing.T) {
	for held, want := range map[time.Duration]string{
		29999 * time.Millisecond: "30s", 30499 * time.Millisecond: "30s", 2999 * time.Millisecond: "3s", 2940 * time.Millisecond: "2.9s",
		9999 * time.Millisecond: "10s",
	} {
		if got := span(new(wire.MillisOf(held)), false); got != want {
			t.Errorf("%v: %s, want %s", held, got, want)
		}
	}
}

// Those who read the history learn of what times it has nothing.
func TestGaps(t *testing.T) {
	now := time.Date(2026, 11, 26, 13, 9, 0, 0, time.Local)
	gap := func(ago, length time.Duration, cause string) wire.HistoryGap {
		to := now.Add(length - ago)
		return wire.HistoryGap{From: now.Add(-ago), To: &to, LengthMs: wire.MillisOf(length), Cause: cause}
	}
	lasts := gap(time.Minute, time.Minute, "blind")
	lasts.To = nil
	k := wire.Kept{
		Server: "one", Since: now.Add(-time.Hour),
		Gaps: []wire.HistoryGap{lasts, gap(time.Hour, 2*time.Minute, "down"), gap(24*time.Hour, time.Second, "blind"), gap(25*time.Hour, time.Second, "blind")},
	}
	want := []string{
		"kept by one since 2026-11-26 12:09:00",
		"gap from 2026-11-26 13:08:00 to now (1m0s): looks at the store failed: what others did was not seen",
		"gap from 2026-11-26 12:09:00 to 2026-11-26 12:11:00 (2m0s): the server was not there: nothing was seen",
		"gap from 2026-11-25 13:09:00 to 2026-11-25 13:09:01 (1s): looks at the store failed: what others did was not seen",
		"and 1 more gap before: --json shows all",
	}
	if got := about(k); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
