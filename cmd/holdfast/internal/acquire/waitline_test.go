package acquire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

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

// Off a terminal a wait is told after a second, and then each minute, as it is by then.
func TestWaitLinesInLog(t *testing.T) {
	printed := stderr(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWaitLine()
		for _, waiters := range []int{3, 4, 5} {
			w.show(&holdfast.HeldError{Resource: "r", Waiters: waiters}, true)
			time.Sleep(time.Minute)
		}
		w.end()
		time.Sleep(time.Hour)
	})
	const line = "holdfast: waiting for \"r\", position 1 of "
	if got, want := printed(), line+"3, held\n"+line+"4, held\n"+line+"5, held\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
