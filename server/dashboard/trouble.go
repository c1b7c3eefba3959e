package dashboard

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
	"github.com/holdfast-go/holdfast/server/words"
)

// level is how much something hurts.
type level int

// The levels.
const (
	fine  level = iota
	watch       // it may become worse: a holder is late, or somebody waits long
	hurts       // somebody waits for a holder that is silent, or that nobody will end
	stuck       // nothing of it will go on by itself
)

// String is the level for style sheets.
func (l level) String() string { return [...]string{"fine", "watch", "hurts", "stuck"}[l] }

// trouble is what is wrong with a resource.
type trouble struct {
	Level level
	Says  string
}

const (
	// longWait is how long somebody waits before that is worth a look.
	longWait = time.Minute
	// endlessPeriod is how often a Client renews a hold without an end.
	endlessPeriod = 30 * time.Second
	// latest is how late a renewal may be on a busy machine.
	latest = 500 * time.Millisecond
)

// troubleOf returns the worst that is wrong.
func troubleOf(e *entry, path []deadlock.Link) trouble {
	worst := trouble{}
	note := func(l level, format string, args ...any) {
		if l > worst.Level {
			worst = trouble{l, fmt.Sprintf(format, args...)}
		}
	}
	waits := len(e.Waiters) > 0
	raised := func(l level) level {
		if waits {
			return l + 1
		}
		return l
	}
	if path != nil {
		note(stuck, "is in a deadlock")
	}
	for _, h := range e.Holds {
		switch p := pulseOf(h); {
		case h.Left == driver.Forever:
			if waits && p.missed >= 2 {
				note(hurts, "it is held without an end, and nobody renews it: only its holder ends that, or a release by force")
			}
		case h.Left == 0 && h.TakeoverDelay > 0:
			note(raised(watch), "its holder has ended without a release, and it keeps others out for its takeover delay of %s", words.Duration(h.TakeoverDelay))
		case p.missed >= 1 && h.Renewed.IsZero():
			if waits { // else it may be meant to end by itself
				note(hurts, "its holder has never renewed it")
			}
		case p.missed >= 2:
			note(raised(watch), "its holder has missed %d renewals", p.missed)
		case p.missed == 1:
			note(watch, "its holder is late: it has missed a renewal")
		}
	}
	if e.Waited >= longWait {
		note(watch, "somebody has waited for more than a minute")
	}
	return worst
}

// pulse is what a hold's times say of its holder.
type pulse struct {
	silent time.Duration // since the last renewal, or the grant; Unknown if the store does not say
	missed int           // renewals
}

// pulseOf returns the pulse. What a hold has left, and how long ago it was renewed, make the
// TTL; Clients renew when a third of it has passed, and every 30 s if it has no end. Of a hold that was never renewed nobody
// knows whether it is to be.
func pulseOf(h driver.Status) pulse {
	silent := h.RenewedAgo()
	if silent == driver.Unknown { // never
		silent = h.Age()
	}
	p := pulse{silent: silent}
	period := endlessPeriod
	switch {
	case silent == driver.Unknown || h.Left == driver.Unknown || h.Left == 0 || h.Released:
		return p
	case h.Left != driver.Forever:
		period = (h.Left + silent) / 3
	}
	if period > 0 {
		p.missed = int(max(silent-max(period/10, latest), 0) / period) // a little late is not missed
	}
	return p
}
