//go:build unix

package campaign

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
	"github.com/holdfast-go/holdfast/lab/linear"
)

// coarse is the coarsest resolution of the stores' clocks.
const coarse = time.Millisecond

// explained reports whether some order of decisions explains the events. Its errors are those
// of linear.Explained for each piece of the history.
func explained(events []history.Event, c judge.Circumstances) (bool, error) {
	var open error
	for _, piece := range pieces(append(settled(events, c), forgotten(events, c)...), c.Losses) {
		requests, err := requests(piece)
		if err != nil {
			return false, err
		}
		ok, err := linear.Explained(requests)
		if err == nil && !ok {
			return false, nil
		}
		open = errors.Join(open, err)
	}
	return open == nil, open
}

// quick is the longest time of a call that surely sent its request only once.
const quick = 50 * time.Millisecond

// settled returns the events, each decided before its answer: a request without an answer
// reaches the store within grace after its caller stopped waiting, or never. If requests are
// resent, a slow grant gets another event without an answer, because an earlier copy of the
// request may have been refused and given a place that others saw.
func settled(events []history.Event, c judge.Circumstances) (all []history.Event) {
	for _, e := range events {
		if e.Outcome != history.Unknown {
			all = append(all, e)
			if c.Resent && e.Kind == history.Acquire && e.Outcome == history.Done && e.Place != "" && e.Answered-e.Called > quick {
				e.Outcome, e.Token, e.Position = history.Unknown, 0, 0
				all = append(all, e)
			}
			continue
		}
		until := e.Answered + c.Grace
		for _, a := range c.Away {
			if e.Answered <= a.To {
				until = min(until, a.From)
			}
		}
		if until > e.Called {
			e.Answered = until
			all = append(all, e)
		}
	}
	return all
}

// forgotten returns a release without an answer for each place that a crash may have taken back:
// one that was first confirmed within grace before it, or not yet. A store need not have it on
// disk, or on a copy.
func forgotten(events []history.Event, c judge.Circumstances) (all []history.Event) {
	events = slices.SortedFunc(slices.Values(events), func(a, b history.Event) int { return cmp.Compare(a.Called, b.Called) })
	for _, crash := range c.Crashes {
		known := make(map[string]bool)
		for _, e := range events {
			if e.Kind != history.Acquire || e.Place == "" || known[e.Place] || e.Called > crash.To {
				continue
			}
			latest := crash.From <= e.Answered+c.Grace
			known[e.Place] = latest || e.Outcome == history.Held && e.Position >= 0
			if latest {
				all = append(all, history.Event{
					Kind: history.Release, Resource: e.Resource, LockID: e.LockID, Place: e.Place,
					Called: crash.From, Answered: crash.To, Outcome: history.Unknown,
				})
			}
		}
	}
	return all
}

// pieces splits the events at the losses of data. Each piece is the history of a store that was
// empty at first. An event that can have been decided on either side of a loss is in both
// pieces, without an answer.
func pieces(events []history.Event, losses []history.Interval) (all [][]history.Event) {
	for i := range len(losses) + 1 {
		before, after := history.Interval{From: math.MinInt64, To: math.MinInt64}, history.Interval{From: math.MaxInt64, To: math.MaxInt64}
		if i > 0 {
			before = losses[i-1]
		}
		if i < len(losses) {
			after = losses[i]
		}
		var piece []history.Event
		for _, e := range events {
			if e.Answered < before.From || e.Called > after.To {
				continue
			}
			if e.Called <= before.To || e.Answered >= after.From {
				if e.Outcome == history.Held || e.Outcome == history.Lost {
					continue // leave it out: it changed nothing
				}
				e.Outcome = history.Unknown
				e.Called, e.Answered = max(e.Called, before.From), min(e.Answered, after.To)
			}
			piece = append(piece, e)
		}
		all = append(all, piece)
	}
	return all
}

// requests converts events for package linear.
func requests(events []history.Event) ([]drivertest.Event, error) {
	ops := map[history.Kind]drivertest.Op{
		history.Acquire: drivertest.Acquire, history.Renew: drivertest.Renew, history.Release: drivertest.Release,
	}
	order := orders(events)
	var found []drivertest.Event
	for _, e := range events {
		op, ok := ops[e.Kind]
		if !ok {
			continue
		}
		var id driver.HoldID
		var place driver.PlaceID
		if err := errors.Join(id.UnmarshalText([]byte(e.HoldID)), place.UnmarshalText([]byte(e.Place))); err != nil {
			return nil, err
		}
		r := drivertest.Event{
			Op: op, Outcome: drivertest.Outcome(e.Outcome),
			Ref:   driver.HoldRef{Resource: e.Resource, LockID: e.LockID, HoldID: id, Token: e.Token},
			Limit: e.Limit, TTL: e.TTL, TakeoverDelay: e.Delay, BySelf: e.BySelf,
			Place: place, Fair: e.Fair, Position: e.Position, Behind: e.Behind,
			Called:   drivertest.Moment{Order: order[e.Called], Time: e.Called - coarse},
			Answered: drivertest.Moment{Order: order[e.Answered], Time: e.Answered + coarse},
		}
		if e.Shared {
			r.Mode = driver.Shared
		}
		if r.Outcome == drivertest.Unknown {
			r.Err = linear.ErrSettled
		}
		found = append(found, r)
	}
	return found, nil
}

// orders numbers the times of the events. An answer and a call at the same time may have either
// order, so they get the same number, with which the call counts as first.
func orders(events []history.Event) map[time.Duration]int {
	var moments []time.Duration
	for _, e := range events {
		moments = append(moments, e.Called, e.Answered)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	order := make(map[time.Duration]int, len(moments))
	for i, at := range moments {
		order[at] = i
	}
	return order
}
