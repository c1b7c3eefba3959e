package historycmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// Rows have the date unless all are of today.
func TestDates(t *testing.T) {
	now := time.Date(2026, 11, 26, 1, 9, 0, 0, time.Local)
	event := func(ago time.Duration) wire.HistoryEvent {
		return wire.HistoryEvent{At: now.Add(-ago), AgoMs: wire.MillisOf(ago), Event: "granted"}
	}
	all := rows([]wire.HistoryEvent{event(time.Minute), event(time.Hour)})
	if all[1][0] != "01:08:00" || all[2][0] != "00:09:00" {
		t.Errorf("of today: %q", all)
	}
	all = rows([]wire.HistoryEvent{event(time.Minute), event(8*time.Hour + 43*time.Minute + 47*time.Second)})
	if all[1][0] != "2026-11-26 01:08:00" || all[2][0] != "2026-11-25 16:25:13" {
		t.Errorf("of two days: %q", all)
	}
}

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
		Server: "one", Since: now.Add(-time.Hour), SinceAgoMs: wire.MillisOf(time.Hour),
		Gaps: []wire.HistoryGap{lasts, gap(time.Hour, 2*time.Minute, "down"), gap(24*time.Hour, time.Second, "blind"), gap(25*time.Hour, time.Second, "blind")},
	}
	want := []string{
		"kept by one since 12:09:00",
		"gap from 13:08:00 to now (1m0s): looks at the store failed: what others did was not seen",
		"gap from 12:09:00 to 12:11:00 (2m0s): the server was not there: nothing was seen",
		"gap from 2026-11-25 13:09:00 to 2026-11-25 13:09:01 (1s): looks at the store failed: what others did was not seen",
		"and 1 more gap before: --json shows all",
	}
	if got := about(k); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The command for the next part chooses as this one did.
func TestNextPart(t *testing.T) {
	where := location.Location{URL: "http://127.0.0.1:4653"}
	h := wire.History{Events: []wire.HistoryEvent{{Number: 3, Event: "granted"}}, Truncated: true}
	for want, q := range map[string]httplock.HistoryQuery{
		" --before 3 backup":                            {Limit: DefaultLimit},
		" --since 1h30m0s --limit 20 --before 3 backup": {Since: 90 * time.Minute, Limit: 20},
	} {
		var out, notes strings.Builder
		q.Resource = "backup"
		if err := show(&out, &notes, where, q, h); err != nil {
			t.Fatal(err)
		}
		if want = "there are more: holdfast history --store http://127.0.0.1:4653" + want + "\n"; !strings.HasSuffix(notes.String(), want) {
			t.Errorf("got %q, want %q", notes.String(), want)
		}
	}
}
