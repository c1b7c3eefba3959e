package acquire

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// refusal is what was in the way of an acquire at a time.
type refusal struct {
	*holdfast.HeldError
	at   time.Time
	fair bool // the acquirer is
}

// waiting says for what this program waits. The most important comes first, because the end
// may be cut off.
func (r refusal) waiting(now time.Time) string {
	return fmt.Sprintf("waiting for %q%s, %s", r.Resource, r.position(), strings.TrimPrefix(r.inTheWay(now), "is "))
}

// refused says why the lock was not acquired, and how many others wait for it.
func (r refusal) refused(now time.Time) string {
	text := fmt.Sprintf("%q %s%s", r.Resource, r.inTheWay(now), r.otherLimit())
	others := r.Waiters
	if r.Position != driver.NoPlace {
		others-- // without the acquirer itself
	}
	if others > 0 {
		text += ", and " + output.Wait(others) + " for it"
	}
	return text
}

// position returns where in the queue the acquirer is. Only a fair one has a position:
// others may overtake, and be overtaken.
func (r refusal) position() string {
	const mostAhead = 4 // of those whom a refusal names
	ahead := max(r.Position, len(r.Ahead))
	switch {
	case r.Position == driver.NoPlace && r.Waiters >= driver.MaxPlaces: // it has no place among them
		return fmt.Sprintf(", beside %d", r.Waiters)
	case r.fair && r.Position != driver.NoPlace:
		return fmt.Sprintf(", position %d of %d", r.Position+1, r.Waiters)
	case r.Position == driver.NoPlace && ahead == mostAhead && r.Waiters > mostAhead:
		return fmt.Sprintf(", behind %d or more", ahead)
	case ahead > 0:
		return fmt.Sprintf(", behind %d", ahead)
	case r.Position == driver.NoPlace && r.Waiters > 0:
		return fmt.Sprintf(", beside %d", r.Waiters)
	case r.Waiters > 1:
		return fmt.Sprintf(", beside %d", r.Waiters-1)
	}
	return ""
}

// inTheWay returns what is in the way, after is or was.
func (r refusal) inTheWay(now time.Time) string {
	switch {
	case len(r.Holders) > 0 && r.OnlyAhead():
		return "is shared by " + r.holder(now) + ", but " + output.Waiter(r.Ahead[0]) + " is first in line"
	case len(r.Holders) > 0 && r.isOver(r.first(), now):
		return "was held by " + r.holder(now)
	case len(r.Holders) > 0:
		return "is held by " + r.holder(now)
	case len(r.Ahead) > 0:
		return "is free, but " + output.Waiter(r.Ahead[0]) + " is first in line"
	}
	return "is held"
}

// holder names the first holder, and says for how long by now, and how much time is left.
func (r refusal) holder(now time.Time) string {
	h := r.first()
	text := output.Holder(h)
	if n := len(r.Holders) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	switch age := h.Age(); {
	case age != driver.Unknown: // shorter than a date, and by one clock
		text += " for " + output.Left((age + now.Sub(r.at)).Truncate(time.Second))
	case !h.Created.IsZero():
		text += " " + output.Since(h.Created, age)
	}
	text += ", " + r.rest(h, now)
	if r.BySelf { // as the store reports it, so that a caller who waits for its own hold notices
		text += ", with the same lock ID"
	}
	if h.Comment != "" {
		text += " (" + h.Comment + ")"
	}
	return text
}

// first returns the first holder, if there is one that is not done with its hold.
func (r refusal) first() holdfast.Status {
	i := slices.IndexFunc(r.Holders, func(s holdfast.Status) bool { return !r.isOver(s, r.at) })
	return r.Holders[max(i, 0)]
}

// isOver reports whether the holder is done with the hold.
func (r refusal) isOver(h holdfast.Status, now time.Time) bool {
	return h.Released || h.TakeoverDelay > 0 && h.Left != driver.Unknown && h.Left <= now.Sub(r.at)
}

// left returns how much time the hold has left by now, in whole seconds.
func (r refusal) left(h holdfast.Status, now time.Time) time.Duration {
	if h.Left == driver.Unknown || h.Left == holdfast.Forever {
		return h.Left
	}
	return max(h.Left-now.Sub(r.at), 0).Truncate(time.Second)
}

// rest says how much time the hold has left.
func (r refusal) rest(h holdfast.Status, now time.Time) string {
	left := r.left(h, now)
	switch {
	case h.Released:
		return "released, kept for " + output.Left(left) + " by --at-least"
	case r.isOver(h, now) && len(r.Holders) == 1 && r.RetryAfter != holdfast.Forever:
		return "ended, to be taken over in " + output.Left(max(r.RetryAfter-now.Sub(r.at), 0).Truncate(time.Second))
	case r.isOver(h, now):
		return "ended, with a takeover delay of " + h.TakeoverDelay.String()
	}
	text := output.Left(left) + " left"
	if left == holdfast.Forever {
		text = "without an end"
	}
	switch {
	case !renewed(h):
	case words.Gone(h):
		text += ", not renewed for " + output.Ago(words.PulseOf(h).Silent+now.Sub(r.at))
	default:
		text += ", renewed by its holder"
	}
	return text
}

// endlessGrace is how long after its grant a hold gets to be one without an end, even in a
// store that is slow: by a first renewal, which says nothing of its holder.
const endlessGrace = 10 * time.Second

// renewed reports whether the holder has renewed the hold since it got it.
func renewed(h holdfast.Status) bool {
	began := h.Created
	if h.Left == holdfast.Forever {
		began = began.Add(endlessGrace)
	}
	return !h.Renewed.IsZero() && h.Renewed.After(began)
}

// otherLimit returns a text if the holders have another limit than the request.
func (r refusal) otherLimit() string {
	if !r.LimitDiffers {
		return ""
	}
	limit := "another --limit"
	for _, s := range r.Holders {
		if s.Mode == holdfast.Shared && s.Limit != driver.LimitUnknown {
			limit = fmt.Sprintf("--limit %d", s.Limit)
		}
	}
	return " with " + limit + " (all programs that share it must give the same limit)"
}
