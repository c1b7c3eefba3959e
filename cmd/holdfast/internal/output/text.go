package output

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// Left says how much time a hold has left, rounded down.
func Left(d time.Duration) string {
	switch {
	case d == holdfast.Forever:
		return "no end"
	case d == driver.Unknown:
		return "?"
	case d < 10*time.Second:
		return d.Truncate(100 * time.Millisecond).String()
	}
	return d.Truncate(time.Second).String()
}

// Ago returns an age in whole seconds.
func Ago(d time.Duration) string {
	if d == driver.Unknown {
		return "?"
	}
	return Left(d.Truncate(time.Second))
}

// The states of a hold.
const (
	held          = "held"
	noEnd         = "no-end"
	released      = "released"       // and kept, as by --at-least
	takeoverDelay = "takeover-delay" // ended without a release
	expired       = "expired"
)

func stateOf(s holdfast.Status) string {
	switch {
	case InTakeoverDelay(s):
		return takeoverDelay
	case s.Left == 0:
		return expired
	case s.Released:
		return released
	case s.Left == holdfast.Forever:
		return noEnd
	}
	return held
}

// InTakeoverDelay reports whether the hold has ended without a release, and keeps others out for
// its takeover delay.
func InTakeoverDelay(s holdfast.Status) bool {
	return s.Left == 0 && s.TakeoverDelay > 0 && !s.Released
}

// Comment returns the comment of a hold, after what has become of its holder.
func Comment(s holdfast.Status) string {
	text := ""
	switch stateOf(s) {
	case takeoverDelay:
		text = "ended, takeover delay " + s.TakeoverDelay.String()
	case released:
		text = "released, ends after --at-least"
	case expired:
		text = "ended"
	}
	if text != "" && s.Comment != "" {
		text += "; "
	}
	return text + s.Comment
}

// Since says since when something is so, and for how long by the store's clock. If the store
// cannot tell, the time is of another program's clock.
func Since(t time.Time, age time.Duration) string {
	if t.IsZero() { // a server does not show it
		return "for an unknown time"
	}
	if age == driver.Unknown {
		return "since " + TimeOfDay(t, age) + ByAnother
	}
	return "since " + TimeOfDay(t, age) + ", for " + Ago(age)
}

// ByAnother follows a time that is not of the store's clock.
const ByAnother = " by another clock"

// TimeOfDay returns the time of day of what was so long ago, or will be: with the date if
// that is long or not known.
func TimeOfDay(t time.Time, ago time.Duration) string {
	if ago != driver.Unknown && ago.Abs() < 12*time.Hour {
		return t.Local().Format("15:04:05")
	}
	return t.Local().Format("2006-01-02 15:04")
}

// List names things in a sentence.
func List(names []string) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i > 0 && i == len(names)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(name))
	}
	return b.String()
}

// Wait says that so many wait.
func Wait(n int) string { return words.Count(n, "waits", "wait") }

// Holder names the holder of a hold.
func Holder(s holdfast.Status) string { return nameOf(s.Owner, s.Host, s.LockID) }

// Waiter names a waiter.
func Waiter(p holdfast.Place) string { return nameOf(p.Owner, p.Host, p.LockID) }

func nameOf(owner, host, lockID string) string {
	switch {
	case owner != "" && host != "":
		return owner + " on " + host
	case owner != "":
		return owner
	case lockID == "": // a server does not show it
		return "another client"
	}
	return "lock ID " + lockID
}
