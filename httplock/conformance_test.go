package httplock

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// clock stands still until it is moved. It counts milliseconds, as the API does.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Truncate(time.Millisecond)
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openHarness(t *testing.T) *drivertest.Harness {
	c := &clock{now: time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)}
	server := (&testServer{t: t, store: memlock.New(&memlock.Options{Now: c.Now})}).listen()
	reopen := func(t *testing.T) driver.Store {
		s, err := New(server.URL, nil) // the suite closes it
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return &drivertest.Harness{HidesPlaces: true, Store: reopen(t), Reopen: reopen, Advance: c.Advance, Now: c.Now}
}

func TestConformance(t *testing.T)             { drivertest.Run(t, openHarness) }
func TestConformanceBehindFaults(t *testing.T) { drivertest.Run(t, drivertest.WithFaults(openHarness)) }
