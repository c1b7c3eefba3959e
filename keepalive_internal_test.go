package holdfast

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// However many holds there are, collect finds all that is due and says when to look
// again: a hold that it forgets would pass its deadline unseen.
func TestCollect(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	for range 200 {
		c := Client{holds: make(map[HoldID]*Hold)}
		for range 50 {
			ttl := time.Second + upTo(time.Minute)
			h := &Hold{keep: rnd.IntN(4) > 0, ttl: ttl, renewAt: upTo(ttl), deadline: ttl}
			if rnd.IntN(10) == 0 {
				h.ttl, h.deadline = Forever, never
			}
			c.holds[driver.NewHoldID()] = h
		}
		for now, next := time.Duration(0), never; now < time.Minute; now += upTo(2 * time.Second) {
			for _, h := range c.holds {
				if now < next && h.due() <= now {
					t.Fatalf("a hold is due at %v, before %v", h.due(), next)
				}
			}
			var expired, due []*Hold
			expired, due, next = c.collect(now)
			for id, h := range c.holds {
				switch found := slices.Contains(expired, h); {
				case found != (h.deadline <= now):
					t.Fatalf("at %v, deadline %v: expired %v", now, h.deadline, found)
				case found:
					delete(c.holds, id)
				case h.due() <= now:
					t.Fatalf("forgotten at %v: %+v", now, h)
				}
			}
			for i, h := range due {
				if !h.inFlight || h.deadline <= now || i > 0 && due[i-1].renewTimeout(now) > h.renewTimeout(now) {
					t.Fatalf("to be renewed at %v: %+v", now, h)
				}
			}
		}
	}
}
