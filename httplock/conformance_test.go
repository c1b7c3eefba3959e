package httplock

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func openHarness(t *testing.T) *drivertest.Harness {
	c := drivertest.NewClock(time.Millisecond) // the resolution of the API
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
