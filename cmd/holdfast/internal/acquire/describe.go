package acquire

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/server/words"
)

// describe returns as text what is in the way: the holders of the resource, or those that
// are served before. It says how many wait in all if the holders are in the way.
func describe(e *holdfast.HeldError) string {
	switch {
	case e.OnlyAhead() && len(e.Holders) == 0:
		return fmt.Sprintf("%q is free, but %s", e.Resource, inLine(e))
	case e.OnlyAhead():
		return fmt.Sprintf("%q is shared%s, and %s", e.Resource, holders(e), inLine(e))
	}
	is := "is"
	if len(e.Holders) > 0 && ended(firstHolder(e)) {
		is = "was"
	}
	text := fmt.Sprintf("%q %s held%s%s", e.Resource, is, holders(e), otherLimit(e))
	others := e.Waiters
	if e.Position != driver.NoPlace {
		others-- // without the acquirer itself
	}
	if others > 0 {
		text += ", and " + output.Wait(others) + " for it"
	}
	return text
}

// shown returns the text of a flag that is for people alone, as a store takes it: what is no UTF-8
// is escaped, and what is too long is cut.
func (r *Request) shown(flag *pflag.Flag) string {
	text := flag.Value.String()
	fits := text
	if !utf8.ValidString(fits) {
		fits = words.Printable(fits)
	}
	if len(fits) > driver.MaxName {
		fits = strings.ToValidUTF8(fits[:driver.MaxName], "")
	}
	if fits != text {
		r.Inform("%s is longer than %d bytes or no UTF-8: the lock has it as %s", env.Given(flag), driver.MaxName, quote.Short(fits))
	}
	return fits
}

// advice says what to do about a hold that is in the way. --wait of the text may follow.
func (a *acquirer) advice(e *holdfast.HeldError, wait string) string {
	if e.RetryAfter != holdfast.Forever {
		return "Try again later, or " + wait
	}
	of := a.Store.Flag() + " " + words.Argument(e.Resource)
	return fmt.Sprintf("It has no end: holdfast explain%s says whether its holder lives, holdfast unlock --force%s ends it", of, of)
}

// ended reports whether the holder is done with the hold.
func ended(s holdfast.Status) bool { return s.Released || output.InTakeoverDelay(s) }

// firstHolder returns the first holder, if there is one that is not done with its hold.
func firstHolder(e *holdfast.HeldError) holdfast.Status {
	i := slices.IndexFunc(e.Holders, func(s holdfast.Status) bool { return !ended(s) })
	return e.Holders[max(i, 0)]
}

// holders names the first holder.
func holders(e *holdfast.HeldError) string {
	if len(e.Holders) == 0 {
		return ""
	}
	first := firstHolder(e)
	text := " by " + output.Holder(first) + more(len(e.Holders)-1)
	if !first.Created.IsZero() {
		text += " " + output.Since(first.Created, first.Age())
	}
	var details []string
	if c := first.Comment; c != "" {
		details = append(details, c)
	}
	switch {
	case first.Released:
		details = append(details, "released, ends after --at-least, in "+output.Left(first.Left))
	case ended(first) && len(e.Holders) == 1 && e.RetryAfter > 0:
		details = append(details, "ended without a release; its takeover delay ends in "+output.Left(e.RetryAfter))
	case ended(first):
		details = append(details, "ended without a release; its takeover delay is "+first.TakeoverDelay.String())
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return text
}

// inLine says how many are served before, and names the first of them.
func inLine(e *holdfast.HeldError) string {
	first := output.Waiter(e.Ahead[0])
	switch n, exact := before(e); {
	case !exact:
		return fmt.Sprintf("%d or more wait in line before, first %s", n, first)
	case n > 1:
		return fmt.Sprintf("%s in line before, first %s", output.Wait(n), first)
	default:
		return fmt.Sprintf("%s in line before: %s", output.Wait(n), first)
	}
}

// mostAhead is how many of those ahead a refusal names.
const mostAhead = 4

// before returns how many are served before the acquirer, or how many at least.
func before(e *holdfast.HeldError) (n int, exact bool) {
	n = max(e.Position, len(e.Ahead))
	return n, e.Position != driver.NoPlace || n < mostAhead || e.Waiters <= mostAhead
}

// otherLimit returns a text if the holders have another limit than the request.
func otherLimit(e *holdfast.HeldError) string {
	if !e.LimitDiffers {
		return ""
	}
	for _, s := range e.Holders {
		if s.Mode == holdfast.Shared && s.Limit != driver.LimitUnknown {
			return fmt.Sprintf(" with --limit %d (all programs that share it must give the same limit)", s.Limit)
		}
	}
	return " with another --limit (all programs that share it must give the same limit)"
}

// more returns how many other holders there are.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
