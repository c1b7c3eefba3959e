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
	// longEndless is how old a hold without an end is before those that wait for it are in
	// trouble.
	longEndless = 10 * time.Minute
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
		case h.Left == 0 && h.TakeoverDelay > 0:
			note(raised(watch), "its holder has ended without a release, and keeps others out for its takeover delay of %s", words.Duration(h.TakeoverDelay))
		case p.missed >= 1 && h.Renewed.IsZero():
			if waits { // else it may be meant to end by itself
				note(hurts, "its holder has never renewed it, and it ends in %s", words.Duration(h.Left))
			}
		case p.missed >= 2:
			note(raised(watch), "its holder has missed %d renewals, and it ends in %s unless it comes back", p.missed, words.Duration(h.Left))
		case p.missed == 1:
			note(watch, "its holder is late: it has missed a renewal")
		case waits && h.Left == driver.Forever && h.Age() >= longEndless:
			note(hurts, "it is held without an end, for %s already: only its holder ends that, or a release by force", words.Duration(h.Age()))
		}
	}
	if e.Waited >= longWait {
		note(watch, "somebody has waited for %s", words.Duration(e.Waited))
	}
	return worst
}

// pulse is what a hold's times say of its holder.
type pulse struct {
	ttl    time.Duration // 0 if it is not known
	silent time.Duration // since the last renewal, or the grant
	missed int           // renewals
}

// pulseOf returns the pulse. What a hold has left, and how long ago it was renewed, make the
// TTL; Clients renew when a third of it has passed. Of a hold that was never renewed nobody
// knows whether it is to be.
func pulseOf(h driver.Status) pulse {
	silent := h.RenewedAgo()
	if silent == driver.Unknown { // never
		silent = h.Age()
	}
	if silent == driver.Unknown || h.Left <= 0 || h.Left == driver.Forever || h.Left == driver.Unknown || h.Released {
		return pulse{silent: max(silent, 0)}
	}
	p := pulse{ttl: h.Left + silent, silent: silent}
	if period := p.ttl / 3; period > 0 {
		p.missed = int(max(silent-period/10, 0) / period) // a little late is not missed
	}
	return p
}
