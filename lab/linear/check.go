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
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// timeout bounds the search for an order of one resource, the part of it that porcupine does.
// A short history takes milliseconds; of one with 10,000 requests it finds none, and the rest
// of the search takes some 10 s.
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
var ErrTimeout = fmt.Errorf("the search for an order took longer than %v", 3*timeout)

// Explained reports whether some order explains the events. Its error is ErrTimeout.
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
		result, info := explainOne(operations(byResource[resource]), limit)
		switch result {
		case porcupine.Illegal:
			return false, info, nil
		case porcupine.Unknown:
			err = ErrTimeout
		case porcupine.Ok:
		}
	}
	return err == nil, info, err
}

// explainOne asks porcupine first and last: only it finds that there is no order.
func explainOne(ops []porcupine.Operation, limit time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	result, info := porcupine.CheckOperationsVerbose(model, ops, limit/60)
	if result != porcupine.Unknown {
		return result, info
	}
	if order := newSearch(ops).order(time.Now().Add(2 * limit)); order != nil && sound(order, ops) {
		return porcupine.Ok, info
	}
	return porcupine.CheckOperationsVerbose(model, ops, limit)
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
		file, err := os.CreateTemp("", "holdfast-linear-*.html") //nolint:usetesting // it is for who reads of the failure
		if err == nil {
			err = errors.Join(porcupine.Visualize(model, info, file), file.Close())
			t.Logf("timeline: %s", file.Name())
		}
		t.Errorf("no order explains the answers to %d requests (timeline: error %v)", len(events), err)
	}
}
