package judge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
)

const (
	s  = time.Second
	ms = time.Millisecond
)

// event returns an event of 2 ms about a hold of 10 s.
func event(kind history.Kind, at time.Duration, who string, outcome history.Outcome, token uint64) history.Event {
	return history.Event{
		Kind: kind, Resource: "r", LockID: who, HoldID: "hold of " + who, Token: token,
		TTL: 10 * s, Called: at, Answered: at + 2*ms, Outcome: outcome,
	}
}

func granted(at time.Duration, who string, token uint64) history.Event {
	return event(history.Acquire, at, who, history.Done, token)
}

func refused(at time.Duration, who string) history.Event {
	return event(history.Acquire, at, who, history.Held, 0)
}

func renewed(at time.Duration, who string, token uint64) history.Event {
	return event(history.Renew, at, who, history.Done, token)
}

func released(at time.Duration, who string, token uint64) history.Event {
	return event(history.Release, at, who, history.Done, token)
}

func unanswered(e history.Event) history.Event {
	e.Outcome, e.Answered = history.Unknown, e.Called+s
	return e
}

func shared(e history.Event, limit int) history.Event {
	e.Shared, e.Limit = true, limit
	return e
}

// placed returns the event with the place of a waiter.
func placed(e history.Event, who string) history.Event {
	e.Place, e.Fair = "place of "+who, true
	return e
}

// queued returns a refusal of a fair waiter, which then has a place.
func queued(at time.Duration, who string) history.Event { return placed(refused(at, who), who) }

func behind(e history.Event) history.Event {
	e.Behind, e.Position = true, -1
	return e
}

func delayed(e history.Event) history.Event {
	e.Delay = 5 * s
	return e
}

func believed(from, until time.Duration, who string) history.Event {
	return history.Event{Kind: history.Believe, Resource: "r", LockID: who, HoldID: "hold of " + who, Called: from, Answered: until, Until: until, Outcome: history.Done}
}

func waited(from, until, answered time.Duration, outcome history.Outcome) history.Event {
	return history.Event{Kind: history.Wait, Resource: "r", LockID: "a", Called: from, Until: until, Answered: answered, Outcome: outcome}
}

func written(at time.Duration, who string, token uint64) history.Event {
	e := event(history.Write, at, who, history.Done, token)
	e.Register = "data"
	return e
}

func lossAt(at time.Duration) []history.Interval {
	return []history.Interval{{From: at, To: at + 100*ms}}
}

// awayAt returns circumstances in which no request reaches the store for a second.
func awayAt(at time.Duration) judge.Circumstances {
	return judge.Circumstances{Grace: 5 * s, Away: []history.Interval{{From: at, To: at + s}}}
}

// trial is a history to judge, with its circumstances.
type trial struct {
	events []history.Event
	c      judge.Circumstances
}

func of(events ...history.Event) trial { return trial{events: events} }

// Each wrong history breaks one promise, and similar histories break none.
func TestViolations(t *testing.T) {
	for rule, trials := range map[judge.Rule]map[string]trial{
		judge.Exclusion: {
			"two holders":          of(granted(0, "a", 1), granted(s, "b", 2)),
			"just before the end":  of(granted(0, "a", 1), granted(9997*ms, "b", 2)),
			"after a renewal":      of(granted(0, "a", 1), renewed(8*s, "a", 1), granted(17*s, "b", 2)),
			"in the delay":         of(delayed(granted(0, "a", 1)), granted(14*s, "b", 2)),
			"writer and reader":    of(granted(0, "a", 1), shared(granted(s, "b", 2), 0)),
			"another limit":        of(shared(granted(0, "a", 1), 3), shared(granted(s, "b", 2), 2)),
			"no limit":             of(shared(granted(0, "a", 1), 3), shared(granted(s, "b", 2), 0)),
			"reader and writer":    of(shared(granted(0, "a", 1), 0), granted(s, "b", 2)),
			"before the loss":      {of(granted(0, "a", 1), granted(s, "b", 2)).events, judge.Circumstances{Losses: lossAt(2 * s)}},
			"granted after a loss": {of(granted(2*s, "a", 1), granted(3*s, "b", 2)).events, judge.Circumstances{Losses: lossAt(s)}},
		},
		judge.Limits: {
			"third of two": of(shared(granted(0, "a", 1), 2), shared(granted(s, "b", 2), 2), shared(granted(2*s, "c", 3), 2)),
		},
		judge.Tokens: {
			"the same one": of(granted(0, "a", 5), released(s, "a", 5), granted(2*s, "b", 5)),
			"a lower one of a clock": {of(granted(0, "a", 5), released(s, "a", 5), granted(2*s, "b", 4)).events,
				judge.Circumstances{Clocked: true}},
			"a lower one":  of(granted(0, "a", 5), released(s, "a", 5), granted(2*s, "b", 4)),
			"after a loss": {of(granted(0, "a", 5), granted(2*s, "b", 4)).events, judge.Circumstances{Losses: lossAt(s)}},
		},
		judge.Orphans: {
			"nobody":                                of(refused(0, "a")),
			"released":                              of(granted(0, "a", 1), released(s, "a", 1), refused(2*s, "b")),
			"expired":                               of(granted(0, "a", 1), refused(10*s+3*ms, "b")),
			"sent while the store was unreachable":  {of(unanswered(granted(2*s, "a", 0)), refused(11*s, "b")).events, awayAt(2 * s)},
			"sent before the store was unreachable": {of(unanswered(granted(2*s-ms, "a", 0)), refused(12*s+ms, "b")).events, awayAt(2 * s)},
			"abandoned before the store was unreachable": {of(unanswered(granted(s/2, "a", 0)), refused(12*s+ms, "b")).events, awayAt(2 * s)},
			"refused":                      of(granted(0, "a", 1), refused(s, "c"), released(2*s, "a", 1), refused(3*s, "b")),
			"unanswered, and expired":      of(unanswered(granted(0, "a", 0)), refused(11*s+ms, "b")),
			"readers below the limit":      of(shared(granted(0, "a", 1), 2), shared(refused(s, "b"), 2)),
			"readers without a limit":      of(shared(granted(0, "a", 1), 0), shared(refused(s, "b"), 0)),
			"no waiter ahead any more":     of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), behind(refused(11*s+5*ms, "c"))),
			"lost renewal extends nothing": of(granted(0, "a", 1), event(history.Renew, 9*s, "a", history.Lost, 1), refused(11*s, "b")),
		},
		judge.Beliefs: {
			"two at once":       of(believed(0, 5*s, "a"), believed(4*s, 6*s, "b")),
			"one in the other":  of(believed(0, 5*s, "a"), believed(s, 2*s, "b")),
			"writer and reader": of(believed(0, 5*s, "a"), shared(believed(4*s, 6*s, "b"), 0)),
			"before the loss":   {of(believed(0, 5*s, "a"), believed(4*s, 6*s, "b")).events, judge.Circumstances{Losses: lossAt(5 * s)}},
		},
		judge.Writes: {
			"stale": of(written(0, "a", 2), written(s, "b", 1)),
			"register that remembers": {of(written(0, "a", 2), written(2*s, "b", 1)).events,
				judge.Circumstances{Losses: lossAt(s), Register: "another"}},
			"before its loss": {of(written(0, "a", 2), written(s, "b", 1)).events,
				judge.Circumstances{Losses: lossAt(2 * s), Register: "data"}},
			"stale, later on": of(written(0, "a", 2), written(s, "b", 3), written(2*s, "c", 2), written(3*s, "b", 3)),
		},
		judge.Turns: {
			"passed by a request without a place": of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), granted(3*s, "c", 2)),
			"passed by a later waiter": of(granted(0, "a", 1), queued(s, "b"), queued(2*s, "c"), released(3*s, "a", 1),
				placed(granted(4*s, "c", 2), "c")),
			"passed after a crash that it had its place long before": {
				of(granted(0, "a", 1), queued(s, "b"), queued(7*s, "b"), released(9*s, "a", 1), granted(12*s, "c", 2)).events,
				judge.Circumstances{Grace: 5 * s, Crashes: lossAt(8 * s)},
			},
			"passed after it renewed its place": of(granted(0, "a", 1), queued(s, "b"), queued(7*s, "b"), released(9*s, "a", 1), granted(12*s, "c", 2)),
		},
		judge.Waiters: {
			"too late":                   {of(waited(0, 5*s, 7*s, history.Held)).events, judge.Circumstances{Slack: s}},
			"never":                      of(waited(0, 5*s, 5*s, history.Unknown)),
			"another process was killed": {of(waited(0, 5*s, 5*s, history.Unknown)).events, judge.Circumstances{Killed: map[int]bool{7: true}}},
		},
	} {
		for name, trial := range trials {
			t.Run(fmt.Sprint(rule, " ", name), func(t *testing.T) {
				found := judge.Violations(trial.events, trial.c)
				if len(found) != 1 || found[0].Rule != rule || found[0].Text == "" || len(found[0].Events) == 0 {
					t.Errorf("found %+v", found)
				}
			})
		}
	}
}

func TestNoViolations(t *testing.T) {
	for name, trial := range map[string]trial{
		"one after the other":     of(granted(0, "a", 1), released(s, "a", 1), granted(2*s, "b", 2)),
		"at the end":              of(granted(0, "a", 1), granted(9999*ms, "b", 2)),
		"granted while released":  of(granted(0, "a", 1), released(s, "a", 1), granted(s, "b", 2)),
		"released without answer": of(granted(0, "a", 1), unanswered(released(s, "a", 1)), granted(s+ms, "b", 2)),
		"a repeat":                of(granted(0, "a", 1), granted(s, "a", 1)),
		"readers":                 of(shared(granted(0, "a", 1), 0), shared(granted(s, "b", 2), 0)),
		"two of two":              of(shared(granted(0, "a", 1), 2), shared(granted(s, "b", 2), 2), shared(refused(2*s, "c"), 2)),
		"unanswered renewal":      of(granted(0, "a", 1), unanswered(renewed(9*s, "a", 1)), granted(10*s, "b", 2)),
		"unanswered renewal that may arrive late":       of(granted(0, "a", 1), unanswered(renewed(9*s, "a", 1)), refused(20*s, "b")),
		"refused while it lives":                        of(granted(0, "a", 1), refused(10*s-ms, "b")),
		"refused in the delay":                          of(delayed(granted(0, "a", 1)), refused(15*s-ms, "b")),
		"refused by the hold of a killed process":       of(unanswered(granted(0, "a", 0)), refused(11*s-ms, "b")),
		"refused by a late request of a killed process": {of(unanswered(granted(0, "a", 0)), refused(13*s, "b")).events, judge.Circumstances{Grace: 3 * s}},
		"after a loss": {of(granted(0, "a", 1), granted(2*s, "b", 2), believed(0, 9*s, "a"), believed(2*s, 3*s, "b")).events,
			judge.Circumstances{Losses: lossAt(s)}},
		"lost before the belief": {of(granted(0, "a", 1), believed(2*s, 9*s, "a"), granted(3*s, "b", 2), believed(3*s, 4*s, "b")).events,
			judge.Circumstances{Losses: lossAt(s)}},
		"granted while data are lost": {of(granted(s+50*ms, "a", 1), granted(2*s, "b", 2)).events, judge.Circumstances{Losses: lossAt(s)}},
		"requested before the loss": {of(until(s+50*ms, granted(s-ms, "a", 1)), granted(2*s, "b", 2)).events,
			judge.Circumstances{Losses: lossAt(s)}},
		"sent before the store was unreachable":        {of(unanswered(granted(2*s-ms, "a", 0)), refused(12*s-ms, "b")).events, awayAt(2 * s)},
		"abandoned when the store was reachable again": {of(until(4*s, unanswered(granted(2*s, "a", 0))), refused(18*s, "b")).events, awayAt(2 * s)},
		"acquire after its release":                    of(unanswered(granted(0, "a", 0)), released(s, "a", 0), refused(10*s, "b")),
		"other resources":                              of(granted(0, "a", 1), elsewhere(granted(s, "b", 1)), believed(0, 5*s, "a"), elsewhere(believed(s, 2*s, "b"))),
		"belief ends early":                            of(until(3*s, believed(0, 5*s, "a")), believed(4*s, 6*s, "b")),
		"beliefs in turn":                              of(believed(0, 5*s, "a"), believed(5*s, 6*s, "b")),
		"readers' beliefs":                             of(shared(believed(0, 5*s, "a"), 0), shared(believed(s, 6*s, "b"), 0)),
		"renewed belief":                               of(believed(0, 5*s, "a"), believed(3*s, 8*s, "a")),
		"writes in order":                              of(written(0, "a", 1), written(s, "a", 1), written(2*s, "b", 2)),
		"writes at once":                               of(written(0, "a", 2), written(ms, "b", 1)),
		"stale and refused":                            of(written(0, "a", 2), event(history.Write, s, "b", history.Lost, 1)),
		"the same moment":                              {of(granted(0, "a", 5), released(3*ms, "a", 5), granted(6*ms, "b", 5)).events, judge.Circumstances{Clocked: true}},
		"stale, but the register forgot": {of(written(0, "a", 2), written(2*s, "b", 1)).events,
			judge.Circumstances{Losses: lossAt(s), Register: "data"}},
		"in turn": of(granted(0, "a", 1), queued(s, "b"), queued(2*s, "c"), released(3*s, "a", 1), placed(granted(4*s, "b", 2), "b"),
			released(5*s, "b", 2), placed(granted(6*s, "c", 3), "c")),
		"place was not kept":      of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), granted(9*s, "c", 2)),
		"place was given up":      of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), placed(released(3*s, "b", 0), "b"), granted(4*s, "c", 2)),
		"place may be granted":    of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), placed(unanswered(granted(3*s, "b", 0)), "b"), granted(3*s, "c", 2)),
		"readers pass readers":    of(granted(0, "a", 1), shared(queued(s, "b"), 0), released(2*s, "a", 1), shared(granted(3*s, "c", 2), 0)),
		"refused because of one":  of(granted(0, "a", 1), queued(s, "b"), released(2*s, "a", 1), behind(refused(10*s, "c"))),
		"passed after a crash":    {of(granted(0, "a", 1), queued(s, "b"), released(3*s, "a", 1), granted(4*s, "c", 2)).events, judge.Circumstances{Grace: 5 * s, Crashes: lossAt(2 * s)}},
		"passed after a loss":     {of(granted(0, "a", 1), queued(s, "b"), granted(4*s, "c", 2)).events, judge.Circumstances{Losses: lossAt(2 * s)}},
		"came at the same moment": of(granted(0, "a", 1), queued(s, "b"), queued(s+ms, "c"), released(3*s, "a", 1), placed(granted(4*s, "c", 2), "c")),
		"waiter in time":          of(waited(0, 5*s, 4*s, history.Done)),
		"waiter within slack":     {of(waited(0, 5*s, 6*s, history.Held)).events, judge.Circumstances{Slack: s}},
		"waiter was killed":       {of(waited(0, 5*s, 5*s, history.Unknown)).events, judge.Circumstances{Killed: map[int]bool{0: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if found := judge.Violations(trial.events, trial.c); len(found) > 0 {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func until(answered time.Duration, e history.Event) history.Event {
	e.Answered = answered
	return e
}

func elsewhere(e history.Event) history.Event {
	e.Resource = "elsewhere"
	return e
}
