package mongokit

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// The time of a command that waited is old. A hold that was granted in the time between
// has no more time left than its grant or last renewal gave it.
func TestAnswerAtAnOldTime(t *testing.T) {
	const ms = model.Time(1000)
	q := driver.AcquireRequest{Resource: "r", LockID: "a", HoldID: driver.NewHoldID(), TTL: 7 * time.Millisecond}
	hold := model.Hold{LockID: "a", HoldID: q.HoldID, Token: 5, Created: 100 * ms, End: 107 * ms}
	renewed, endless := hold, hold
	renewed.Renewed, renewed.End = 105*ms, 125*ms
	endless.End = model.NoEnd
	far := hold
	far.End = model.TimeOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		hold model.Hold
		now  model.Time
		want time.Duration
	}{
		{hold, 97 * ms, 7 * time.Millisecond},
		{hold, 100 * ms, 7 * time.Millisecond},
		{hold, 103 * ms, 4 * time.Millisecond},
		{renewed, 97 * ms, 20 * time.Millisecond},
		{renewed, 106 * ms, 19 * time.Millisecond},
		{endless, 97 * ms, driver.Forever},
		{far, 97 * ms, driver.Forever},
	} {
		g, err := Answer(Found{Record: model.Record{Resource: "r", Token: 5, Holds: []model.Hold{c.hold}}, Now: c.now}, q)
		if err != nil || g.Token != 5 || g.Left != c.want {
			t.Errorf("at %v of %+v: %+v, error %v; want %v left", c.now, c.hold, g, err, c.want)
		}
	}
}
