package statuscmd

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// Explain says in sentences who holds the resource, who waits for it, and why.
func Explain(ctx context.Context, where location.Location, resource string) error {
	l := looker{where: where}
	defer l.close()
	seen := l.look(ctx, holdfast.Filter{Resource: resource})
	if seen.err != nil {
		return where.Failure(seen.err)
	}
	s := scene{resource: resource, holds: seen.holds, noQueue: seen.queues == nil, waiters: seen.queues[resource]}
	for _, line := range s.sentences() {
		if _, err := fmt.Println(words.Printable(line)); err != nil {
			return exit.Printed(err)
		}
	}
	return nil
}

// scene is what the store shows of a resource.
type scene struct {
	resource string
	holds    []holdfast.Status
	noQueue  bool
	waiters  []output.Waiting
}

// sentences returns what is to be printed, line by line.
func (s *scene) sentences() []string {
	var lines []string
	for _, h := range s.holds {
		lines = append(lines, s.held(h), "It "+s.end(h)+".")
	}
	n := len(s.waiters)
	if len(s.holds) == 0 {
		lines = append(lines, fmt.Sprintf("%q is free.", s.resource))
	}
	switch {
	case s.noQueue:
		lines = append(lines, "The store keeps no queue: it does not know who waits.")
	case n == 0 && len(s.holds) == 0:
		lines = append(lines, "Nobody waits for it.")
	case n == 0:
		lines = append(lines, "Nobody waits for it, or not for a second yet.")
	default:
		lines = append(lines, output.Wait(n)+" for it:")
	}
	for i := range s.waiters {
		lines = append(lines, s.waiter(i))
	}
	for _, h := range s.holds {
		if n > 0 && words.Gone(h) {
			lines = append(lines, stuck(h))
		}
	}
	return lines
}

// held says who holds the resource, and how long already.
func (s *scene) held(h holdfast.Status) string {
	is := "is"
	if h.Released || h.Left == 0 {
		is = "was"
	}
	text := fmt.Sprintf("%q %s held by %s, %s", s.resource, is, output.Holder(h), words.Mode(h.Mode, h.Limit))
	if !h.Created.IsZero() {
		text += ", " + output.Since(h.Created, h.Age())
	}
	if h.Comment != "" {
		text += " (" + h.Comment + ")"
	}
	return text + "."
}

// at says when something happened, and how long ago that is by the store's clock.
func at(t time.Time, ago time.Duration) string {
	if ago == driver.Unknown {
		return "at " + output.TimeOfDay(t, ago) + output.ByAnother
	}
	return "at " + output.TimeOfDay(t, ago) + ", " + output.Ago(ago) + " ago"
}

// end says until when the hold lasts.
func (s *scene) end(h holdfast.Status) string {
	renewed := "was never renewed"
	switch {
	case h.Created.IsZero(): // a server shows its caller no more
		renewed = "may have been renewed"
	case !h.Renewed.IsZero():
		renewed = "was last renewed " + at(h.Renewed, h.RenewedAgo())
	}
	switch left := output.Left(h.Left); {
	case h.Left == 0 && h.TakeoverDelay > 0:
		return fmt.Sprintf("has ended without a release, and keeps others out for its takeover delay of %v", h.TakeoverDelay)
	case h.Left == 0:
		return "has just ended"
	case h.Released:
		return fmt.Sprintf("is released, and ends in %s, after --at-least", left)
	case h.Left == holdfast.Forever:
		return "has no end, and " + renewed
	case h.Left == driver.Unknown:
		return renewed + "; the store does not say when it ends"
	default:
		return fmt.Sprintf("ends in %s unless its holder renews it, and %s", left, renewed)
	}
}

// waiter says who waits at that position, since when, and why.
func (s *scene) waiter(i int) string {
	w := s.waiters[i]
	text := fmt.Sprintf("  %s %s, %s, %s, %s: %s", output.Number(w), output.Waiter(w.Place), words.Mode(w.Mode, w.Limit),
		output.Since(w.Since, w.Age()), output.Fairness(w.Place), s.reason(i))
	if asked, late := words.Late(w.Place); late {
		return fmt.Sprintf("%s; it has not asked for %s, and its place ends in %s.", text, output.Left(asked), output.Left(w.Left.Truncate(time.Second)))
	}
	return text + "."
}

// reason says what is in the way of a waiter.
func (s *scene) reason(i int) string {
	var places []holdfast.Place
	for _, w := range s.waiters {
		places = append(places, w.Place)
	}
	if why := words.Reason(s.holds, places, i); why != "" {
		return why
	}
	if _, late := words.Late(places[i]); late {
		return "nothing is in its way"
	}
	return "nothing is in its way, its next try succeeds"
}

// stuck says of the holder of a hold that others wait for that it seems to be gone.
func stuck(h holdfast.Status) string {
	if h.Left == holdfast.Forever {
		return fmt.Sprintf("Stuck: %s holds it without an end, and nobody renews it: only its holder ends that, or a release by force.", output.Holder(h))
	}
	return fmt.Sprintf("Stuck: %s has missed %d renewals: it was killed or stopped, cannot reach the store, or does not renew it by itself.",
		output.Holder(h), words.PulseOf(h).Missed)
}
