package output

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		99 * time.Millisecond:    "0s",
		9999 * time.Millisecond:  "9.9s",
		29999 * time.Millisecond: "29s",
		90 * time.Minute:         "1h30m0s",
		holdfast.Forever:         "no end",
		driver.Unknown:           "?",
	} {
		if got := Left(d); got != want {
			t.Errorf("left(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	at := time.Date(2026, 11, 21, 15, 0, 0, 0, time.Local)
	for want, got := range map[string]string{
		"since 15:00:00, for 1m1s":                Since(at, time.Minute+1999*time.Millisecond),
		"since 15:00:00, for 0s":                  Since(at, 0),
		"since 2026-11-21 15:00, for 48h0m0s":     Since(at, 48*time.Hour),
		"since 2026-11-21 15:00 by another clock": Since(at, driver.Unknown),
		"for an unknown time":                     Since(time.Time{}, driver.Unknown),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := TimeOfDay(at, -time.Hour); got != "15:00:00" {
		t.Errorf("in an hour it is %s", got)
	}
}
