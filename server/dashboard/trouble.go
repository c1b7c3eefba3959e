package dashboard

import (
	"fmt"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// level is how much something hurts.
type level int

// The levels.
const (
	fine  level = iota
	watch       // it may become worse: a holder is late, or somebody waits long
	hurts       // somebody waits for a holder that may be gone
	stuck       // somebody waits for a holder that is gone: words.Stuck
)

// String is the level for style sheets.
func (l level) String() string { return [...]string{"fine", "watch", "hurts", "stuck"}[l] }

// trouble is what is wrong with a resource.
type trouble struct {
	Level level
	Says  string
}

// longWait is how long somebody waits before that is worth a look.
const longWait = time.Minute

// troubleOf returns the worst that is wrong.
func troubleOf(e *entry) trouble {
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
	gone := watch
	if words.Stuck(e.Holds, e.Waiters) {
		gone = stuck
	}
	for _, h := range e.Holds {
		switch p := words.PulseOf(h); {
		case h.Left == driver.Forever:
			if waits && words.Gone(h) {
				note(gone, "it is held without an end, and nobody renews it: only its holder ends that, or a release by force")
			}
		case h.Left == 0 && h.TakeoverDelay > 0:
			note(raised(watch), "its holder has ended without a release, and it keeps others out for its takeover delay of %s", words.Duration(h.TakeoverDelay))
		case p.Missed >= 1 && h.Renewed.IsZero():
			if waits { // else it may be meant to end by itself
				note(hurts, "its holder has never renewed it")
			}
		case words.Gone(h):
			note(gone, "its holder has missed %d renewals", p.Missed)
		case p.Missed == 1:
			note(watch, "its holder is late: it has missed a renewal")
		}
	}
	if e.Waited >= longWait {
		note(watch, "somebody has waited for more than a minute")
	}
	return worst
}

// auditTrouble says that the audit cannot be written. Locks go on without it.
func auditTrouble() node {
	return html.P(html.ID("audit-failing"), class("notice bad"), html.B(text("The audit cannot be written")),
		text(": the server's log says why. Locks go on. Releases by force go on only as long as there is room left that was kept for them."))
}
