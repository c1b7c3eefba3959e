package statuscmd

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// mark is the part of a hold or a waiter that is compared to detect changes. Passing time,
// renewals and the requests of those that wait are no changes.
type mark struct {
	driver.HoldRef
	driver.Details
	mode          holdfast.Mode
	takeoverDelay time.Duration
	released      bool
	end           string
	since         int64 // when a waiter got its place, in ns
	fair          bool
}

func marks(holds []holdfast.Status, q output.Queues) []mark {
	ms := make([]mark, len(holds))
	for i, s := range holds {
		ms[i] = mark{
			HoldRef: s.Ref(), Details: s.Details, mode: s.Mode,
			takeoverDelay: s.TakeoverDelay, released: s.Released,
		}
		switch s.Left {
		case 0:
			ms[i].end = "past"
		case holdfast.Forever, driver.Unknown:
			ms[i].end = output.Left(s.Left)
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(q)) {
		for _, p := range q[resource] {
			ms = append(ms, mark{
				HoldRef: driver.HoldRef{Resource: resource, LockID: p.LockID},
				Details: driver.Details{Owner: p.Owner, Host: p.Host}, mode: p.Mode, since: p.Since.UnixNano(), fair: p.Fair,
			})
		}
	}
	return ms
}
