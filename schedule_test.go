package holdfast

import (
	"math/rand/v2"
	"testing"
	"time"
)

// However many holds a look at the schedule changes, the first to be due stays
// the first: a hold that is hidden behind others would pass its deadline unseen.
func TestScheduleStaysInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	for range 200 {
		var c Client
		var holds []*Hold
		for range 50 {
			ttl := time.Second + upTo(time.Minute)
			h := &Hold{keep: rnd.IntN(4) > 0, ttl: ttl, renewAt: upTo(ttl), deadline: ttl, index: -1}
			if rnd.IntN(10) == 0 {
				h.ttl, h.deadline = Forever, never
			}
			holds = append(holds, h)
			c.schedule.add(h)
		}
		for now := time.Duration(0); now < time.Minute; now += upTo(2 * time.Second) {
			expired, due := c.collect(now)
			for _, h := range expired {
				if h.deadline > now {
					t.Fatalf("expired at %v, deadline %v", now, h.deadline)
				}
			}
			for i, h := range due {
				if !h.inFlight || h.deadline <= now || i > 0 && due[i-1].deadline > h.deadline {
					t.Fatalf("to be renewed at %v: %+v", now, h)
				}
			}
			for _, h := range holds {
				if h.index >= 0 && h.due() < c.schedule.first().due() {
					t.Fatalf("at %v the first is due at %v, another at %v", now, c.schedule.first().due(), h.due())
				}
			}
			for i, h := range c.schedule {
				if h.index != i {
					t.Fatalf("the hold at %d says that it is at %d", i, h.index)
				}
			}
		}
	}
}
