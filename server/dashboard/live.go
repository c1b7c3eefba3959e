package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

// silence is how often a stream says that it lives.
const silence = 15 * time.Second

// events serves the stream by which a browser learns that there is something new. It then
// loads the parts of its pages again: one stream is enough for all of them.
func (d *Dashboard) events(v *visit) {
	claim, ok := v.account().Open(budget.Streams, 1)
	if !ok { // the browser asks again and again
		v.busy(30*time.Second, "Too many browsers are live already.")
		return
	}
	defer claim.Close()
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	if s, ok := v.caller.(access.Session); ok && !s.Until().IsZero() {
		// The browser opens another one, is refused, and goes to the form to sign in.
		ctx, cancel = context.WithDeadline(ctx, s.Until())
		defer cancel()
	}
	stop := context.AfterFunc(d.life, cancel)
	defer stop()
	control := http.NewResponseController(v.w)
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := fmt.Fprintf(v.w, format, args...); err != nil {
			return false
		}
		if control.Flush() != nil {
			return false
		}
		// In HTTP/2 a deadline that passes ends a stream also when nothing is written.
		return control.SetWriteDeadline(time.Time{}) == nil
	}
	if v.r.Method == http.MethodHead {
		v.fail(http.StatusMethodNotAllowed, "This address takes a GET.")
		return
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events until there are many
	if !send("retry: 2000\n\n") {
		return
	}
	changed := v.caller.Changed()
	for number := uint64(0); ; {
		waiting, end := context.WithTimeout(ctx, silence)
		s, err := d.looker.After(waiting, number)
		end()
		select {
		case <-changed: // the next request finds out what the caller may see now
			return
		default:
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			if !send("event: alive\ndata: 0\n\n") {
				return
			}
			continue
		case err != nil:
			return
		}
		number = s.Number
		if !send("event: sight\ndata: %d\n\n", number) {
			return
		}
	}
}
