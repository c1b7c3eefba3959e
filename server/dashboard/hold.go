package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/words"
)

// span is a duration that goes on while a page is shown: an age grows, a rest shrinks.
type span struct {
	Known   bool
	Forever bool
	Ms      int64
}

func (s span) text() string {
	if s.Ms < 1000 {
		return "0 s"
	}
	return words.Duration((time.Duration(s.Ms) * time.Millisecond).Truncate(time.Second))
}

// grows returns an age as it is now: the sight has shown it a while ago.
func (v *visit) grows(d, sightAge time.Duration) span {
	if d == driver.Unknown {
		return span{}
	}
	return span{Known: true, Ms: (d + sightAge).Milliseconds()}
}

// shrinks returns what is left now.
func (v *visit) shrinks(d, sightAge time.Duration) span {
	switch d {
	case driver.Unknown:
		return span{}
	case driver.Forever:
		return span{Known: true, Forever: true}
	}
	return span{Known: true, Ms: max(d-sightAge, 0).Milliseconds()}
}

// holdView is a hold as a page shows it.
type holdView struct {
	Resource, Who, Comment string
	Mode                   string
	Ref, Program           string
	Token                  string
	Age, Silent, Left      span
	Renewed                bool
	Over                   bool   // its time has ended since the look
	Old                    bool   // looks fail since
	Pulse                  string // alive, new, late, silent, quiet, endless, ended, released, over, unknown
	Says                   string
	Takeover               string
	Force                  bool
}

// programRef stands for a lock ID, which says what one program holds and waits for. It does
// not tell the lock ID.
func programRef(lockID string) string {
	sum := sha256.Sum256([]byte(lockID))
	return hex.EncodeToString(sum[:12])
}

func (v *visit) holdView(h driver.Status, sightAge time.Duration) holdView {
	p := words.PulseOf(h)
	view := holdView{
		Resource: h.Resource, Who: words.Printable(words.Holder(h)),
		Comment: words.Printable(h.Comment), Mode: words.Mode(h.Mode, h.Limit),
		Ref: wire.RefOf(h.HoldID), Program: programRef(h.LockID), Age: v.grows(h.Age(), sightAge),
		Silent: v.grows(p.Silent, sightAge), Left: v.shrinks(h.Left, sightAge), Renewed: !h.Renewed.IsZero(),
		Force: v.caller.May(access.Force, h.Resource), Over: over(h, sightAge), Old: v.old,
	}
	if view.Force || v.isOwn(h.Resource, h.LockID) {
		view.Token = strconv.FormatUint(h.Token, 10)
	}
	view.Pulse, view.Says = vitality(h, p)
	switch {
	case view.Over:
		view.Pulse, view.Says = "over", "Its time is over; nobody knows whether it was renewed."
	case v.old && (view.Pulse == "alive" || view.Pulse == "new"):
		view.Pulse, view.Says = "unknown", "It was well when the store was seen last; nobody knows how it is now."
	}
	if h.TakeoverDelay > 0 {
		view.Takeover = words.Duration(h.TakeoverDelay)
	}
	return view
}

// over reports whether a hold's time has ended since the look, unless it was renewed.
func over(h driver.Status, sightAge time.Duration) bool {
	return !h.Released && h.Left > 0 && h.Left <= sightAge // Forever is the longest, and Unknown less than 0
}

// vitality says whether the holder is alive.
func vitality(h driver.Status, p words.Pulse) (name, says string) {
	switch {
	case h.Released:
		return "released", "It was released, and keeps others out for a while as its holder wanted."
	case h.Left == 0:
		return "ended", "It has ended without a release."
	case p.Silent == driver.Unknown:
		return "unknown", "The store does not say when it was renewed, so nobody knows whether its holder is alive."
	case h.Left == driver.Forever && !words.Gone(h):
		return "alive", "It has no end, and its holder has renewed it lately."
	case h.Left == driver.Forever:
		return "endless", "It has no end, and nobody renews it: its holder is gone, or does not renew what has no end."
	case h.Renewed.IsZero() && p.Missed > 0:
		return "quiet", "It was never renewed: it is meant to end by itself, or its holder was killed or stopped, or cannot reach the store."
	case h.Renewed.IsZero():
		return "new", "It is not due to be renewed yet."
	case words.Gone(h):
		return "silent", "Its holder has missed " + words.Count(p.Missed, "renewal", "renewals") + ": it was killed or stopped, cannot reach the store, or does not renew it by itself."
	case p.Missed == 1:
		return "late", "Its holder has missed a renewal."
	}
	return "alive", "Its holder renews it."
}

// waiterView is a waiter as a page shows it.
type waiterView struct {
	Number           string // its place in the line, or empty
	Resource, Who    string
	Mode, Order      string
	Program          string
	Age, Asked, Left span
	Late             bool
	Reason           string
}

func (v *visit) waiterView(e *entry, i int, sightAge time.Duration) waiterView {
	p := e.Waiters[i]
	view := waiterView{
		Resource: p.Resource, Who: words.Printable(words.Waiter(p)), Mode: words.Mode(p.Mode, p.Limit), Program: programRef(p.LockID),
		Age: v.grows(p.Age(), sightAge), Asked: v.grows(p.AskedAgo(), sightAge), Left: v.shrinks(p.Left, sightAge),
		Order: "in any order", Reason: cmp.Or(words.Reason(e.Holds, e.Waiters, i), "nothing is in its way, its next try succeeds"),
	}
	if p.Fair {
		n := 1
		for _, other := range e.Waiters[:i] {
			if other.Fair {
				n++
			}
		}
		view.Number, view.Order = strconv.Itoa(n), "in turn"
	}
	// A waiter that lives asks four times while its place is kept, and the store notes every
	// second request at least.
	if asked := p.AskedAgo(); asked != driver.Unknown && p.Left > 0 {
		view.Late = asked >= (asked+p.Left)*6/10
	}
	return view
}

// link returns the address of a resource's page, from any page.
func link(resource string) string { return "resource?" + url.Values{"name": {resource}}.Encode() }

// programLink returns the address of what one program holds and waits for.
func programLink(ref string) string { return "program?" + url.Values{"ref": {ref}}.Encode() }
