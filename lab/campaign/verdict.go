//go:build unix

package campaign

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
)

// judge returns the broken promises. The first violation of each rule has the shortest history
// that shows it.
func (c *campaign) judge(events []history.Event) []judge.Violation {
	circumstances := judge.Circumstances{
		Grace: c.grace(), Slack: c.grace(), Clocked: c.place.clocked, Resent: strings.HasPrefix(c.place.url, "elasticsearch"),
		Away: c.away, Losses: c.losses, Crashes: c.crashes,
		Register: c.place.register.Kind, Killed: make(map[int]bool),
	}
	for _, p := range c.all {
		circumstances.Killed[p.number] = p.killed
	}
	found := judge.Violations(events, circumstances)
	seen := make(map[judge.Rule]bool)
	for i, v := range found {
		if !seen[v.Rule] {
			seen[v.Rule] = true
			found[i].Events = judge.Shrink(events, c.grace(), func(some []history.Event) bool {
				return slices.ContainsFunc(judge.Violations(some, circumstances), func(w judge.Violation) bool { return w.Rule == v.Rule })
			})
		}
	}
	if c.plan.Unordered || c.place.clocked || c.place.forgets {
		// No order explains repeated tokens, or a copy that lacks some decisions.
		return found
	}
	return append(found, c.order(events, circumstances)...)
}

// order searches for an order of decisions, independently of package judge.
func (c *campaign) order(events []history.Event, known judge.Circumstances) []judge.Violation {
	ok, err := explained(events, known)
	switch {
	case err != nil:
		c.unordered = true
		c.t.Error(errors.Join(err, c.keep(kept{events, known})))
		return nil
	case ok:
		return nil
	}
	return []judge.Violation{{
		Rule: judge.Order, Text: "no order explains the answers",
		Events: judge.Shrink(events, c.grace(), func(some []history.Event) bool {
			ok, err := explained(some, known)
			return err == nil && !ok
		}),
	}}
}
