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

// timeout limits porcupine's search for an order of one resource. A short history takes
// milliseconds. For a history of 10,000 requests porcupine finds none, and the rest of the
// search takes some 10 s.
const timeout = time.Minute

// model is the model of one resource for porcupine.
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

// operations converts events to a history. A request without an answer may be decided at any
// time after its call, or never, unless its error is ErrSettled.
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

// ErrTimeout means that the search found neither an order nor a proof that there is none.
var ErrTimeout = fmt.Errorf("the search for an order took longer than %v", 3*timeout)

// Explained reports whether some order explains the events. Its only error is ErrTimeout.
func Explained(events []drivertest.Event) (bool, error) {
	ok, _, err := explain(events, timeout)
	return ok, err
}

// explain checks each resource by itself, because resources are independent.
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

// explainOne asks porcupine first and last: only porcupine can prove that there is no order.
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

// Check fails the test if no order explains the events. The test's log then names a file with
// the timeline.
func Check(t *testing.T, events []drivertest.Event) {
	t.Helper()
	ok, info, err := explain(events, timeout)
	switch {
	case err != nil:
		t.Errorf("of %d requests: %v", len(events), err)
	case !ok:
		file, err := os.CreateTemp("", "holdfast-linear-*.html") //nolint:usetesting // must outlive the test, for its reader
		if err == nil {
			err = errors.Join(porcupine.Visualize(model, info, file), file.Close())
			t.Logf("timeline: %s", file.Name())
		}
		t.Errorf("no order explains the answers to %d requests (timeline: error %v)", len(events), err)
	}
}
