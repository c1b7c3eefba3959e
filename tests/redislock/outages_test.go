package redislock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/tests/engines"
)

// A server that writes everything to its disk before it answers crashes.
func TestOutages(t *testing.T) {
	server := engines.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	drivertest.Outages(t, func(t *testing.T) *drivertest.Harness {
		p := place{redislock.Options{Prefix: engines.Name() + ":"}, connect(t, options(t, server.URL))}
		return &drivertest.Harness{
			Uncounted: true, // keys expire

			Store:   p.open(),
			Reopen:  func(*testing.T) driver.Store { return p.open() },
			Restart: func(t *testing.T) { server.Restart(t) },
		}
	})
}
