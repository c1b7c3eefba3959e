package words

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestPulse(t *testing.T) {
	seen := time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC)
	hold := func(ttl, age, renewedAgo time.Duration) driver.Status {
		h := driver.Status{Seen: seen, Created: seen.Add(-age), Left: driver.Forever}
		silent := age
		if renewedAgo != driver.Unknown {
			h.Renewed, silent = seen.Add(-renewedAgo), renewedAgo
		}
		if ttl != driver.Forever {
			h.Left = max(ttl-silent, 0)
		}
		return h
	}
	const ttl, never = 30 * time.Second, driver.Unknown
	released, unseen := hold(ttl, time.Minute, 25*time.Second), hold(ttl, time.Minute, 25*time.Second)
	released.Released, unseen.Seen = true, time.Time{}
	for name, c := range map[string]struct {
		hold   driver.Status
		missed int
		gone   bool
	}{
		"renewed":                      {hold(ttl, time.Minute, 10*time.Second), 0, false},
		"a little late":                {hold(ttl, time.Minute, 10900*time.Millisecond), 0, false},
		"one missed":                   {hold(ttl, time.Minute, 12*time.Second), 1, false},
		"just before the second":       {hold(ttl, time.Minute, 20*time.Second), 1, false},
		"two missed":                   {hold(ttl, time.Minute, 21*time.Second), 2, true},
		"two missed, of a short TTL":   {hold(time.Second, time.Minute, 900*time.Millisecond), 1, false},
		"never renewed":                {hold(ttl, 25*time.Second, never), 2, false},
		"past its end":                 {hold(ttl, time.Minute, time.Minute), 0, false},
		"released":                     {released, 0, false},
		"not known when":               {unseen, 0, false},
		"no end":                       {hold(driver.Forever, time.Hour, 32*time.Second), 0, false},
		"no end, one missed":           {hold(driver.Forever, time.Hour, 60*time.Second), 1, false},
		"no end, two missed":           {hold(driver.Forever, time.Hour, 63*time.Second), 2, true},
		"no end, never renewed":        {hold(driver.Forever, time.Minute, never), 1, false},
		"no end, never renewed so far": {hold(driver.Forever, 2*time.Minute, never), 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			if p := PulseOf(c.hold); p.Missed != c.missed {
				t.Errorf("it has missed %d, want %d", p.Missed, c.missed)
			}
			if got := Gone(c.hold); got != c.gone {
				t.Errorf("gone: %v, want %v", got, c.gone)
			}
		})
	}
}
