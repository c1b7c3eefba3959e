package acquire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

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
