package acquire

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestWaitLineText(t *testing.T) {
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.Local)
	ada := holdfast.Status{LockID: "id", Left: 30 * time.Second, Created: now.Add(-time.Hour)}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	with := func(change func(*holdfast.HeldError)) refusal {
		e := holdfast.HeldError{Resource: "r", Holders: []holdfast.Status{ada}, RetryAfter: ada.Left}
		change(&e)
		return refusal{&e, now.Add(-1500 * time.Millisecond)}
	}
	const begin = `waiting for "r", held by ada on web1`
	for want, r := range map[string]refusal{
		`waiting for "r"`: with(func(e *holdfast.HeldError) { e.Holders = nil }),
		begin + ` since 14:00:00, 28s left (nightly)`: with(func(*holdfast.HeldError) {}),
		begin + ` and 2 more since 14:00:00, 28s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders = append(e.Holders, ada, ada)
		}),
		begin + ` since 2026-11-19 15:00, 28s left`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Created, e.Holders[0].Comment = now.Add(-48*time.Hour), ""
		}),
		`waiting for "r", held by lock ID id, ? left`: with(func(e *holdfast.HeldError) {
			e.Holders[0] = holdfast.Status{LockID: "id", Left: driver.Unknown}
		}),
		begin + ` since 14:00:00, 28s left, renewed by its holder (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Renewed = now
		}),
		begin + ` since 14:00:00, forever left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.RetryAfter = holdfast.Forever, holdfast.Forever
		}),
		begin + ` since 14:00:00, 0s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left = time.Second
		}),
		begin + ` since 14:00:00, ended, to be taken over in 1m18s (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.Holders[0].TakeoverDelay, e.RetryAfter = 0, time.Minute, 80*time.Second
		}),
		begin + ` since 14:00:00, 8s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.Holders[0].TakeoverDelay, e.RetryAfter = 10*time.Second, time.Minute, 80*time.Second
		}),
	} {
		if got := r.text(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 80, "short"},
		{"0123456789", 13, "0123456789"},
		{"0123456789", 12, "012345..."},
		{"日本日本", 11, "日本日本"},
		{"日本日本", 10, "日本..."}, // each is two columns wide
		{"a\x1b[31m\nb", 80, `a\x1b[31m\nb`},
		{"redis://u:secret@host", 80, "redis://***@host"},
		{"anything", 0, ""},
	} {
		if got := fit(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
