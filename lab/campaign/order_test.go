//go:build unix

package campaign

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
)

const second = time.Second

// asked returns a request about a hold of 10 s.
func asked(kind history.Kind, at time.Duration, who byte, outcome history.Outcome, token uint64) history.Event {
	return history.Event{
		Kind: kind, Resource: "r", LockID: string(who), HoldID: driver.HoldID{who}.String(), Token: token,
		TTL: 10 * second, Called: at, Answered: at + second/10, Outcome: outcome,
	}
}

func grantedTo(who byte, at time.Duration, token uint64) history.Event {
	return asked(history.Acquire, at, who, history.Done, token)
}

func refusedAt(at time.Duration) history.Event {
	return asked(history.Acquire, at, 'b', history.Held, 0)
}

// unheard returns an acquire whose caller stopped waiting without an answer.
func unheard(at, until time.Duration) history.Event {
	return late(asked(history.Acquire, at, 'a', history.Unknown, 0), until)
}

func late(e history.Event, answered time.Duration) history.Event {
	e.Answered = answered
	return e
}

// A request that a client library has sent twice was refused first, and others saw its place.
func TestOrderOfResent(t *testing.T) {
	b, c := late(asked(history.Acquire, second, 'b', history.Done, 5), 3*second), asked(history.Acquire, 2*second, 'c', history.Held, 0)
	b.Place, b.Fair, c.Place, c.Position = driver.PlaceID{7}.String(), true, driver.PlaceID{8}.String(), 1
	events := []history.Event{grantedTo('a', 0, 1), asked(history.Release, 5*second/2, 'a', history.Done, 1), b, c}
	for _, resent := range []bool{false, true} {
		if got, err := explained(events, judge.Circumstances{Grace: 5 * second, Resent: resent}); err != nil || got != resent {
			t.Errorf("resent %v: explained: %v, %v", resent, got, err)
		}
	}
}

// A crash may take back a place that a waiter has just got, and nothing else.
func TestOrderAfterCrash(t *testing.T) {
	waiting := func(e history.Event, place byte, position int) history.Event {
		e.Place, e.Fair, e.Position = driver.PlaceID{place}.String(), true, position
		return e
	}
	crash := func(at time.Duration) []history.Interval { return []history.Interval{{From: at, To: at + second/10}} }
	a, b := grantedTo('a', 0, 1), waiting(refusedAt(second), 7, 0)
	refused := asked(history.Acquire, 8*second, 'c', history.Held, 0)
	ahead, behind := waiting(refused, 8, 0), waiting(refused, 8, 1)
	for name, c := range map[string]struct {
		events  []history.Event
		crashes []history.Interval
		want    bool
	}{
		"the place stays":              {[]history.Event{a, b, behind}, nil, true},
		"the place is gone":            {[]history.Event{a, b, ahead}, nil, false},
		"a crash, and the place stays": {[]history.Event{a, b, behind}, crash(2 * second), true},
		"a crash takes the place":      {[]history.Event{a, b, ahead}, crash(2 * second), true},
		"a crash before the place":     {[]history.Event{a, b, ahead}, crash(second / 2), false},
		"a crash long after the place": {[]history.Event{a, b, ahead}, crash(7 * second), false},
		"a crash takes the hold":       {[]history.Event{a, b, grantedTo('c', 8*second, 2)}, crash(2 * second), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := explained(c.events, judge.Circumstances{Grace: 5 * second, Crashes: c.crashes})
			if err != nil || got != c.want {
				t.Errorf("explained: %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// For each history without an order there is a similar one with an order.
func TestOrder(t *testing.T) {
	lost := []history.Interval{{From: 2 * second, To: 3 * second}}
	a, b := grantedTo('a', 0, 1), grantedTo('b', 4*second, 5)
	for name, c := range map[string]struct {
		events []history.Event
		losses []history.Interval
		away   []history.Interval
		want   bool
	}{
		"two holders":                                          {[]history.Event{a, b}, nil, nil, false},
		"one after the other":                                  {[]history.Event{a, asked(history.Release, second, 'a', history.Done, 1), b}, nil, nil, true},
		"released without an answer":                           {[]history.Event{a, asked(history.Release, second, 'a', history.Unknown, 1), b}, nil, nil, true},
		"two holders, a loss between":                          {[]history.Event{a, b}, lost, nil, true},
		"two holders before the loss":                          {[]history.Event{a, grantedTo('b', second, 2)}, lost, nil, false},
		"two holders after the loss":                           {[]history.Event{grantedTo('a', 4*second, 1), grantedTo('b', 5*second, 2)}, lost, nil, false},
		"granted around the loss":                              {[]history.Event{late(grantedTo('a', second, 1), 4*second), b}, lost, nil, true},
		"granted around the loss and renewed after it":         {[]history.Event{late(grantedTo('a', second, 1), 4*second), asked(history.Renew, 5*second, 'a', history.Done, 1)}, lost, nil, true},
		"granted around the loss, renewed, and another holder": {[]history.Event{late(grantedTo('a', second, 1), 4*second), asked(history.Renew, 5*second, 'a', history.Done, 1), grantedTo('b', 6*second, 5)}, lost, nil, false},
		"a lost hold is renewed":                               {[]history.Event{a, asked(history.Renew, 5*second, 'a', history.Done, 1)}, lost, nil, false},
		"a hold is renewed":                                    {[]history.Event{a, asked(history.Renew, 5*second, 'a', history.Done, 1)}, nil, nil, true},
		"a lost hold refuses":                                  {[]history.Event{a, asked(history.Acquire, 5*second, 'b', history.Held, 0)}, lost, nil, false},
		"a hold refuses":                                       {[]history.Event{a, asked(history.Acquire, 5*second, 'b', history.Held, 0)}, nil, nil, true},
		"refused around the loss":                              {[]history.Event{a, late(asked(history.Acquire, second, 'b', history.Held, 0), 4*second)}, lost, nil, true},
		"refused by an unanswered acquire":                     {[]history.Event{asked(history.Acquire, 0, 'a', history.Unknown, 0), asked(history.Acquire, second, 'b', history.Held, 0)}, nil, nil, true},
		"sent while the store is unreachable":                  {[]history.Event{unheard(2*second, 3*second), refusedAt(12 * second)}, nil, lost, false},
		"sent just before the store is unreachable":            {[]history.Event{unheard(second, 3*second), refusedAt(12*second - second/10)}, nil, lost, true},
		"sent just before, and expired":                        {[]history.Event{unheard(second, 3*second), refusedAt(12*second + second/100)}, nil, lost, false},
		"abandoned before the store is unreachable":            {[]history.Event{unheard(second, 3*second/2), refusedAt(12*second - second/10)}, nil, lost, true},
		"abandoned before, and expired":                        {[]history.Event{unheard(second, 3*second/2), refusedAt(12*second + second/100)}, nil, lost, false},
		"may still arrive":                                     {[]history.Event{unheard(second, 3*second), refusedAt(17 * second)}, nil, nil, true},
		"abandoned when the store is reachable again":          {[]history.Event{unheard(2*second, 4*second), refusedAt(18 * second)}, nil, lost, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := explained(c.events, judge.Circumstances{Grace: 5 * second, Losses: c.losses, Away: c.away})
			if err != nil || got != c.want {
				t.Errorf("explained: %v, %v; want %v", got, err, c.want)
			}
		})
	}
}
