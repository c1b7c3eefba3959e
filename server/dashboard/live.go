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

// silence is how often a stream says that it lives, and glance how often it looks whether the
// store does better or worse.
const silence, glance = 15 * time.Second, time.Second

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
	defer context.AfterFunc(d.life, cancel)()
	control := http.NewResponseController(v.w)
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writePatience))
		_, err := fmt.Fprintf(v.w, format, args...)
		// It could pass before net/http writes the end of the answer.
		return errors.Join(err, control.Flush(), control.SetWriteDeadline(time.Time{})) == nil
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events until there are many
	if !send("retry: 2000\n\n") {
		return
	}
	changed, number, level, said := v.caller.Changed(), uint64(0), d.opts.Health.Now().Level, time.Now()
	for {
		waiting, end := context.WithTimeout(ctx, glance)
		s, err := d.looker.After(waiting, number)
		end()
		select {
		case <-changed: // the next request finds out what the caller may see now
			return
		default:
		}
		is, event := d.opts.Health.Now().Level, ""
		switch {
		case ctx.Err() != nil, err != nil && !errors.Is(err, context.DeadlineExceeded):
			return
		case err == nil:
			number, event = s.Number, "sight"
		case is != level:
			event = "sight"
		case time.Since(said) >= silence:
			event = "alive"
		}
		if level = is; event == "" {
			continue
		}
		if said = time.Now(); !send("event: %s\ndata: %d\n\n", event, number) {
			return
		}
	}
}
