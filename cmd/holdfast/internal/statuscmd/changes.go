package statuscmd

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// settled is what is compared to detect changes.
type settled struct {
	holds  []holdfast.Status
	queues map[string][]holdfast.Place
}

// settle returns what is held and waited for, without what passing time, renewals and the
// requests of those that wait change.
func settle(holds []holdfast.Status, q output.Queues) settled {
	s := settled{queues: map[string][]holdfast.Place{}}
	for _, h := range holds {
		h.Created, h.Renewed, h.Seen = time.Time{}, time.Time{}, time.Time{}
		if h.Left != 0 && h.Left != holdfast.Forever && h.Left != driver.Unknown {
			h.Left = 1
		}
		s.holds = append(s.holds, h)
	}
	for resource, places := range q {
		for _, w := range places {
			p := w.Place
			p.Asked, p.Seen, p.Left, p.Position = time.Time{}, time.Time{}, 0, 0
			s.queues[resource] = append(s.queues[resource], p)
		}
	}
	return s
}
