package past

import (
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
