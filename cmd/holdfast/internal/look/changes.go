package look

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// mark is the part of a hold that is compared to detect changes. Passing time and
// renewals are no changes.
type mark struct {
	driver.HoldRef
	driver.Details
	mode          holdfast.Mode
	takeoverDelay time.Duration
	released      bool
	waited        bool // the time of the last waiter is no change
	end           string
}

func marks(holds []holdfast.Status) []mark {
	ms := make([]mark, len(holds))
	for i, s := range holds {
		ms[i] = mark{
			HoldRef: s.Ref(), Details: s.Details, mode: s.Mode,
			takeoverDelay: s.TakeoverDelay, released: s.Released, waited: !s.Waited.IsZero(),
		}
		switch s.Left {
		case 0:
			ms[i].end = "past"
		case holdfast.Forever, driver.Unknown:
			ms[i].end = output.Left(s.Left)
		}
	}
	return ms
}
