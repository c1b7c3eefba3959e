// Package linear checks whether a store's answers to concurrent requests are
// those of some order of decisions, one resource at a time (linearizability),
// with porcupine. It knows neither package model nor any store.
package linear

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// timeout bounds the search for an order of one resource. A history that is in order
// takes milliseconds.
const timeout = time.Minute

// model of one resource.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, _ any) (next []any) {
		for _, n := range s.(state).step(in.(request)) {
			next = append(next, n)
		}
		return next
	},
	Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	Hash:  func(s any) uint64 { return s.(state).hash() },
	DescribeOperation: func(in, _ any) string {
		r := in.(request)
		return fmt.Sprintf("%s %s %v by %s, token %d: %s", r.Mode, r.Op, r.TTL, r.Ref.LockID, r.Ref.Token, r.Outcome)
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

// operations makes a history of events. What has no answer may be decided at any
// time from its call on, or never, unless the test knows that it is settled.
func operations(events []drivertest.Event) []porcupine.Operation {
	clients := make(map[string]int)
	var ops []porcupine.Operation
	for _, e := range events {
		if e.Op == drivertest.List {
			continue
		}
		client, ok := clients[e.Ref.LockID]
		if !ok {
			client = len(clients)
			clients[e.Ref.LockID] = client
		}
		op := porcupine.Operation{
			ClientId: client, Input: request{Event: e, from: e.Called.Time, to: e.Answered.Time},
			Call: int64(e.Called.Order), Return: int64(e.Answered.Order),
		}
		if e.Outcome == drivertest.Unknown && !errors.Is(e.Err, ErrSettled) {
			op.Input = request{Event: e, from: e.Called.Time, to: never}
			op.Return = math.MaxInt64
		}
		ops = append(ops, op)
	}
	return slices.Clip(ops)
}

// ErrTimeout says that neither an order was found, nor that there is none.
var ErrTimeout = fmt.Errorf("the search for an order took longer than %v", timeout)

// ErrRefusals says that there is an order of all but the refusals, which were too many
// to be explained in time.
var ErrRefusals = fmt.Errorf("all but the refusals has an order; the search for one with them took longer than %v", timeout)

// Explained reports whether some order explains the events. Its error is ErrTimeout, or
// ErrRefusals if some order explains all others.
func Explained(events []drivertest.Event) (bool, error) {
	ok, _, err := explain(events, timeout)
	return ok, err
}

// explain looks at each resource for itself: what explains one need not explain another.
func explain(events []drivertest.Event, limit time.Duration) (ok bool, info porcupine.LinearizationInfo, err error) {
	byResource := make(map[string][]drivertest.Event)
	for _, e := range events {
		byResource[e.Ref.Resource] = append(byResource[e.Ref.Resource], e)
	}
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		ok, info, failed := explainOne(byResource[resource], limit)
		if !ok && failed == nil {
			return false, info, nil
		}
		err = errors.Join(err, failed)
	}
	return !errors.Is(err, ErrTimeout), info, err
}

// guesses are what may have done something though it has no answer, the quickest to try
// first. What has no answer may have done nothing. Where that explains the rest there is no
// need to look for a place for it, which takes very long where there is much.
var guesses = []kept{
	{},
	{waiters: true},
	{renewals: true},
	{waiters: true, renewals: true},
	{waiters: true, first: true},
	{waiters: true, renewals: true, first: true},
}

func explainOne(events []drivertest.Event, limit time.Duration) (ok bool, info porcupine.LinearizationInfo, err error) {
	for _, patience := range []time.Duration{limit / 60, limit / 4} { // one that fits is quick
		for _, keep := range guesses {
			if porcupine.CheckOperationsTimeout(model, operations(simplified(events, keep)), patience) == porcupine.Ok {
				return true, info, nil
			}
		}
	}
	result, info := porcupine.CheckOperationsVerbose(model, operations(events), limit)
	if result != porcupine.Unknown {
		return result == porcupine.Ok, info, nil
	}
	// A refusal changes nothing. Where each may be because of one of hundreds of
	// requests without an answer, the search has no end; all else must have an order.
	decisions := slices.DeleteFunc(simplified(events, kept{}), func(e drivertest.Event) bool { return e.Outcome == drivertest.Held })
	if porcupine.CheckOperationsTimeout(model, operations(decisions), limit/4) == porcupine.Ok {
		return true, info, ErrRefusals
	}
	return false, info, ErrTimeout
}

// Check fails the test if no order explains the events; the timeline is then in
// a file that the test names.
func Check(t *testing.T, events []drivertest.Event) {
	t.Helper()
	ok, info, err := explain(events, timeout)
	switch {
	case err != nil:
		t.Errorf("of %d requests: %v", len(events), err)
	case !ok:
		file := filepath.Join(os.TempDir(), "holdfast-linear.html")
		err := porcupine.VisualizePath(model, info, file)
		t.Errorf("no order explains the answers to %d requests; timeline: %s (error %v)", len(events), file, err)
	}
}
