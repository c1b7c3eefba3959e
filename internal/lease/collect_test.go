package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// However many holds there are, collect finds all due holds and says when the next one is
// due: a forgotten hold would pass its deadline unnoticed.
func TestCollect(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	for range 200 {
		ls := Leases{live: make(map[driver.HoldID]*Lease)}
		for range 50 {
			ttl := time.Second + upTo(time.Minute)
			h := &Lease{Keep: rnd.IntN(4) > 0, ttl: ttl, renewAt: upTo(ttl), deadline: ttl}
			if rnd.IntN(10) == 0 {
				h.ttl, h.deadline = driver.Forever, never
			}
			ls.live[driver.NewHoldID()] = h
		}
		for now, next := time.Duration(0), never; now < time.Minute; now += upTo(2 * time.Second) {
			for _, h := range ls.live {
				if now < next && h.due() <= now {
					t.Fatalf("a hold is due at %v, before %v", h.due(), next)
				}
			}
			var expired, due []*Lease
			expired, due, next = ls.collect(now)
			for id, h := range ls.live {
				switch found := slices.Contains(expired, h); {
				case found != (h.deadline <= now):
					t.Fatalf("at %v, deadline %v: expired %v", now, h.deadline, found)
				case found:
					delete(ls.live, id)
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
