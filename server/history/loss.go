package history

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A holder may learn that its hold has ended when another has been granted the resource
// elsewhere, and no look has shown that yet. So a loss waits for the next look if that comes
// soon: the hold had ended before the next one began.

// lostLater reports whether the next look is to note that the hold is lost. l.mu is held.
func (l *Log) lostLater(e Event) bool {
	h, ok := l.holds.open[e.key()]
	if !ok || !h.next.IsZero() || e.Token != 0 && e.Token != h.Token {
		return false
	}
	if !l.sees.on || l.sees.period > blindAfter || l.isBlind(e.At) {
		return false
	}
	if h.lost.IsZero() {
		h.lost = e.At
	}
	return true
}

// noteLosses notes losses that wait for a look which will not come. l.mu is held.
func (l *Log) noteLosses() {
	for _, h := range l.holds.open {
		if h.lost.IsZero() {
			continue
		}
		e := h.ending(Lost, h.lost, driver.Unknown)
		for _, news := range l.holds.end(&e) {
			l.push(news, true)
		}
	}
}

// goneFor returns how long before that time a hold that is lost may have ended.
func (h *hold) goneFor(at time.Time) time.Duration {
	if h.alive.IsZero() {
		return driver.Unknown
	}
	return max(at.Sub(h.alive), 0)
}
