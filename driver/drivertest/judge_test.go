package drivertest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

const s = time.Second

// ids makes hold IDs of letters: the same letter is the same hold ID.
func ids(letter string) (id driver.HoldID) {
	copy(id[:], letter)
	return id
}

// ev is an event at a moment; over makes it longer.
func ev(at time.Duration, op drivertest.Op, lockID, hold string, token uint64) drivertest.Event {
	e := drivertest.Event{
		Op: op, Outcome: drivertest.Done, TTL: 10 * s, Left: driver.Unknown,
		Ref: driver.HoldRef{Resource: "r", LockID: lockID, HoldID: ids(hold), Token: token},
	}
	e.Called.Time, e.Answered.Time = at, at
	return e
}

func grant(at time.Duration, lockID, hold string, token uint64) drivertest.Event {
	return ev(at, drivertest.Acquire, lockID, hold, token)
}

func held(at time.Duration, lockID string) drivertest.Event {
	return with(ev(at, drivertest.Acquire, lockID, "refused", 0), func(e *drivertest.Event) { e.Outcome = drivertest.Held })
}

func renewal(at time.Duration, lockID, hold string, token uint64) drivertest.Event {
	return ev(at, drivertest.Renew, lockID, hold, token)
}

func released(at time.Duration, lockID, hold string, token uint64) drivertest.Event {
	return ev(at, drivertest.Release, lockID, hold, token)
}

func listed(at time.Duration, holds ...driver.Status) drivertest.Event {
	return with(ev(at, drivertest.List, "", "", 0), func(e *drivertest.Event) { e.Ref, e.Holds = driver.HoldRef{}, holds })
}

func shown(lockID, hold string, token uint64, left time.Duration) driver.Status {
	return driver.Status{Resource: "r", LockID: lockID, HoldID: ids(hold), Token: token, Left: left}
}

func with(e drivertest.Event, change ...func(*drivertest.Event)) drivertest.Event {
	for _, c := range change {
		c(&e)
	}
	return e
}

func shared(limit int) func(*drivertest.Event) {
	return func(e *drivertest.Event) { e.Mode, e.Limit = driver.Shared, limit }
}

func delayed(d time.Duration) func(*drivertest.Event) {
	return func(e *drivertest.Event) { e.TakeoverDelay = d }
}

func after(d time.Duration) func(*drivertest.Event) {
	return func(e *drivertest.Event) { e.After = d }
}

func left(d time.Duration) func(*drivertest.Event) { return func(e *drivertest.Event) { e.Left = d } }

func lost(e *drivertest.Event)    { e.Outcome = drivertest.Lost }
func unknown(e *drivertest.Event) { e.Outcome = drivertest.Unknown }
func bySelf(e *drivertest.Event)  { e.BySelf = true }

// over lets the event last until the given time. Its call keeps its place in the history; its
// answer comes after the n events that follow it.
func over(until time.Duration, n int) func(*drivertest.Event) {
	return func(e *drivertest.Event) { e.Answered.Time, e.Answered.Order = until, n }
}

// history numbers the moments of events in their order.
func history(events ...drivertest.Event) []drivertest.Event {
	for i := range events {
		e := &events[i]
		e.Called.Order = 10 * i
		e.Answered.Order = 10*(i+e.Answered.Order) + 5 // after over: behind the call of the last event that it overlaps
	}
	return events
}

func TestJudgeFindsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		events []drivertest.Event
		want   string
	}{
		"two exclusive holds":  {history(grant(0, "a", "1", 1), grant(s, "b", "2", 2)), "in spite of"},
		"shared by exclusive":  {history(grant(0, "a", "1", 1), with(grant(s, "b", "2", 2), shared(0))), "in spite of"},
		"exclusive by shared":  {history(with(grant(0, "a", "1", 1), shared(0)), grant(s, "b", "2", 2)), "in spite of"},
		"one lock ID twice":    {history(with(grant(0, "a", "1", 1), shared(0)), with(grant(s, "a", "2", 2), shared(0))), "in spite of"},
		"a repeat is new":      {history(grant(0, "a", "1", 1), grant(s, "a", "1", 2)), "in spite of"},
		"a moment too early":   {history(grant(0, "a", "1", 1), grant(10*s-1, "b", "2", 2)), "in spite of"},
		"early after renewal":  {history(grant(0, "a", "1", 1), renewal(5*s, "a", "1", 1), grant(12*s, "b", "2", 2)), "in spite of"},
		"in the delay":         {history(with(grant(0, "a", "1", 1), delayed(5*s)), grant(14*s, "b", "2", 2)), "in spite of"},
		"before release after": {history(grant(0, "a", "1", 1), with(released(s, "a", "1", 1), after(3*s)), grant(3*s, "b", "2", 2)), "in spite of"},
		"release of another":   {history(grant(0, "a", "1", 1), released(s, "a", "2", 0), grant(2*s, "b", "2", 2)), "in spite of"},
		"overlapping requests": {history(with(grant(0, "a", "1", 1), over(2*s, 1)), with(grant(s, "b", "2", 2), over(3*s, 1))), "in spite of"},

		"limit": {history(with(grant(0, "a", "1", 1), shared(2)), with(grant(0, "b", "2", 2), shared(2)),
			with(grant(s, "c", "3", 3), shared(2))), "limit 2 passed"},
		"another limit": {history(with(grant(0, "a", "1", 1), shared(3)), with(grant(s, "c", "3", 3), shared(4))), "in spite of"},
		"no limit":      {history(with(grant(0, "a", "1", 1), shared(3)), with(grant(s, "c", "3", 3), shared(0))), "in spite of"},
		"limit, at once": {history(with(grant(0, "a", "1", 1), shared(1), over(2*s, 1)),
			with(grant(s, "b", "2", 2), shared(1), over(3*s, 1))), "limit 1 passed"},
		"limit, delayed permit": {history(with(grant(0, "a", "1", 1), shared(1), delayed(s)),
			with(grant(10*s, "b", "2", 2), shared(1))), "limit 1 passed"},

		"token falls":     {history(grant(0, "a", "1", 7), released(s, "a", "1", 7), grant(s, "b", "2", 6)), "the token fell"},
		"token repeats":   {history(grant(0, "a", "1", 7), released(s, "a", "1", 7), grant(s, "b", "2", 7)), "one token for two"},
		"granted for too": {history(with(grant(0, "a", "1", 1), left(11*s))), "told 11s"},

		"lost too early":     {history(grant(0, "a", "1", 1), with(renewal(9*s, "a", "1", 1), lost)), "before its end"},
		"lost after renewal": {history(grant(0, "a", "1", 1), renewal(9*s, "a", "1", 1), with(renewal(18*s, "a", "1", 1), lost)), "before its end"},
		"lost to a stranger": {history(grant(0, "a", "1", 1), released(s, "b", "1", 1), with(renewal(2*s, "a", "1", 1), lost)), "before its end"},
		"revived":            {history(grant(0, "a", "1", 1), renewal(10*s, "a", "1", 1)), "though it was gone"},
		"revived, released":  {history(grant(0, "a", "1", 1), released(s, "a", "1", 1), renewal(2*s, "a", "1", 1)), "though it was gone"},
		"revived, given up":  {history(grant(0, "a", "1", 1), with(released(s, "a", "1", 1), after(5*s)), renewal(2*s, "a", "1", 1)), "though it was gone"},
		"revived, lost":      {history(grant(0, "a", "1", 1), with(renewal(11*s, "a", "1", 1), lost), renewal(12*s, "a", "1", 1)), "though it was gone"},
		"renewed, unheard":   {history(renewal(0, "a", "1", 1)), "though it was gone"},
		"renewed to less":    {history(grant(0, "a", "1", 1), with(renewal(s, "a", "1", 1), left(8*s))), "to less"},

		"refused, empty":    {history(held(0, "a")), "nothing was in the way"},
		"refused, expired":  {history(grant(0, "a", "1", 1), held(10*s, "b")), "nothing was in the way"},
		"refused, released": {history(grant(0, "a", "1", 1), released(s, "a", "1", 1), held(2*s, "b")), "nothing was in the way"},
		"refused, delay over": {history(with(grant(0, "a", "1", 1), delayed(s)),
			held(11*s, "b")), "nothing was in the way"},
		"refused, shared": {history(with(grant(0, "a", "1", 1), shared(2)), with(held(s, "b"), shared(2))), "nothing was in the way"},
		"not by itself":   {history(grant(0, "a", "1", 1), with(held(s, "b"), bySelf)), "because of itself"},

		"shows a stranger": {history(listed(0, shown("a", "1", 1, s))), "never granted"},
		"shows expired":    {history(grant(0, "a", "1", 1), listed(10*s, shown("a", "1", 1, s))), "as live though it is gone"},
		"shows released":   {history(grant(0, "a", "1", 1), released(s, "a", "1", 1), listed(2*s, shown("a", "1", 1, s))), "as live though it is gone"},
		"shows dead":       {history(grant(0, "a", "1", 1), listed(10*s, shown("a", "1", 1, 0))), "no longer blocks"},
		"shows too little": {history(grant(0, "a", "1", 1), listed(s, shown("a", "1", 1, 8*s))), "less than it has"},
		"shows too much":   {history(grant(0, "a", "1", 1), listed(s, shown("a", "1", 1, 10*s))), "more than it has"},
		"hides":            {history(grant(0, "a", "1", 1), listed(s)), "not listed"},
	} {
		t.Run(name, func(t *testing.T) {
			wrongs := drivertest.Judge(c.events)
			if !strings.Contains(strings.Join(wrongs, "\n"), c.want) {
				t.Errorf("judged %q; want %q", wrongs, c.want)
			}
		})
	}
}

func TestJudgeAcceptsRight(t *testing.T) {
	for name, events := range map[string][]drivertest.Event{
		"one after another": history(grant(0, "a", "1", 1), listed(s, shown("a", "1", 1, 9*s)), held(s, "b"), renewal(5*s, "a", "1", 1),
			held(14*s, "b"), grant(15*s, "b", "2", 2), with(renewal(15*s, "a", "1", 1), lost), released(16*s, "a", "1", 1),
			listed(16*s, shown("b", "2", 2, 9*s)), with(held(17*s, "b"), bySelf), released(18*s, "b", "2", 2), grant(18*s, "a", "3", 3)),
		"readers": history(with(grant(0, "a", "1", 1), shared(2)), with(grant(0, "b", "2", 2), shared(2)), with(held(s, "c"), shared(2)),
			held(s, "d"), released(2*s, "a", "1", 1), with(grant(2*s, "c", "3", 3), shared(2)), with(held(3*s, "e"), shared(0))),
		"repeats": history(with(grant(0, "a", "1", 1), unknown), grant(s, "a", "1", 1), grant(s, "a", "1", 1),
			with(renewal(2*s, "a", "1", 1), unknown), renewal(3*s, "a", "1", 1), with(released(4*s, "a", "1", 1), unknown), released(4*s, "a", "1", 1)),
		"no answer, it was granted":  history(with(grant(0, "a", "1", 0), unknown), held(s, "b"), listed(2*s, shown("a", "1", 1, s))),
		"no answer, it was not":      history(with(grant(0, "a", "1", 0), unknown), grant(s, "b", "2", 2)),
		"no answer, it comes later":  history(with(grant(0, "a", "1", 0), unknown), grant(s, "b", "2", 2), released(2*s, "b", "2", 2), held(60*s, "b")),
		"release without answer":     history(grant(0, "a", "1", 1), with(released(s, "a", "1", 1), unknown), grant(s, "b", "2", 2)),
		"release, still on its way":  history(grant(0, "a", "1", 1), with(released(s, "a", "1", 1), unknown), held(s, "b"), with(renewal(2*s, "a", "1", 1), lost)),
		"late release of a reused":   history(with(released(0, "a", "1", 0), unknown), grant(s, "a", "1", 1), grant(2*s, "b", "2", 2)),
		"renewal, still on its way":  history(grant(0, "a", "1", 1), with(renewal(s, "a", "1", 1), unknown), held(10*s, "b")),
		"release before its acquire": history(released(0, "a", "1", 0), grant(s, "a", "1", 1), held(2*s, "b"), renewal(3*s, "a", "1", 1)),
		"delay":                      history(with(grant(0, "a", "1", 1), delayed(5*s)), held(14*s, "b"), grant(15*s, "b", "2", 2)),
		"delay, released":            history(with(grant(0, "a", "1", 1), delayed(5*s)), released(11*s, "a", "1", 1), grant(11*s, "b", "2", 2)),
		"given up":                   history(grant(0, "a", "1", 1), with(released(0, "a", "1", 1), after(5*s)), with(renewal(s, "a", "1", 1), lost), held(4*s, "b"), grant(5*s, "b", "2", 2)),
		"forced":                     history(grant(0, "a", "1", 1), released(s, "a", "", 0), grant(s, "b", "2", 2), with(renewal(s, "a", "1", 1), lost)),
		"the same again, expired":    history(grant(0, "a", "1", 1), grant(10*s, "a", "1", 2), with(renewal(11*s, "a", "1", 1), lost), renewal(11*s, "a", "1", 2)),
		"one wins, at once":          history(with(grant(0, "a", "1", 1), over(2*s, 1)), with(held(s, "b"), over(3*s, 1))),
		"released meanwhile": history(grant(0, "a", "1", 1), with(released(s, "a", "1", 1), over(5*s, 2)),
			grant(2*s, "b", "2", 2), with(released(3*s, "b", "2", 2), over(5*s, 1)), with(held(4*s, "c"), over(4*s, 0))),
		"ends meanwhile":   history(grant(0, "a", "1", 1), with(grant(9*s, "b", "2", 2), over(11*s, 0))),
		"another resource": history(grant(0, "a", "1", 1), with(grant(0, "b", "2", 1), func(e *drivertest.Event) { e.Ref.Resource = "q" })),
	} {
		t.Run(name, func(t *testing.T) {
			if wrongs := drivertest.Judge(events); len(wrongs) != 0 {
				t.Errorf("Judge found %q in a correct history", wrongs)
			}
		})
	}
}
