package fitness

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestSensibleTTL(t *testing.T) {
	for _, c := range []struct{ slowest, want time.Duration }{
		{0, time.Second},
		{33 * time.Millisecond, time.Second},
		{34 * time.Millisecond, 2 * time.Second},
		{100 * time.Millisecond, 3 * time.Second},
		{101 * time.Millisecond, 5 * time.Second},
		{time.Second, 30 * time.Second},
		{1001 * time.Millisecond, time.Minute},
		{3 * time.Second, 2 * time.Minute},
		{time.Minute, 30 * time.Minute},
		{time.Minute + 1, time.Hour},
		{time.Hour, 30 * time.Hour},
		{2 * time.Hour, 61 * time.Hour},
	} {
		if got := sensibleTTL(c.slowest); got != c.want {
			t.Errorf("answers in %v: TTL %v, want %v", c.slowest, got, c.want)
		}
	}
}

func TestPromises(t *testing.T) {
	best := driver.Traits{
		Name: "best", Reach: driver.Network, ServerClock: true, Notifies: true, Queue: true, Durable: true, Shared: true,
		Fencing: driver.FencingStrict,
	}
	for name, c := range map[string]struct {
		change func(*driver.Traits)
		check  string
		result Verdict
		says   string
	}{
		"network":       {func(*driver.Traits) {}, "reach", Note, "on all machines"},
		"host":          {func(t *driver.Traits) { t.Reach = driver.Host }, "reach", Note, "this host only"},
		"process":       {func(t *driver.Traits) { t.Reach = driver.Process }, "reach", Warn, "one process"},
		"clock":         {func(*driver.Traits) {}, "clock", Note, "the store's clock"},
		"no clock":      {func(t *driver.Traits) { t.ServerClock = false }, "clock", Warn, "in step"},
		"queue":         {func(*driver.Traits) {}, "queue", Note, "can be used"},
		"without queue": {func(t *driver.Traits) { t.Queue = false }, "queue", Note, "--fair"},
		"silent":        {func(t *driver.Traits) { t.Notifies = false }, "notifies", Note, "poll"},
		"durable":       {func(*driver.Traits) {}, "durable", Note, "outlive"},
		"not durable":   {func(t *driver.Traits) { t.Durable = false }, "durable", Warn, "may lose"},
		"shared":        {func(*driver.Traits) {}, "shared", Note, "--limit"},
		"not shared":    {func(t *driver.Traits) { t.Shared = false }, "shared", Note, "exclusive locks only"},
		"strict":        {func(*driver.Traits) {}, "fencing", Note, "always rise"},
		"by the clock":  {func(t *driver.Traits) { t.Fencing = driver.FencingClock }, "fencing", Note, "tick"},
		"no tokens":     {func(t *driver.Traits) { t.Fencing = driver.FencingNone }, "fencing", Warn, "no tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			traits := best
			c.change(&traits)
			for _, f := range promises(traits) {
				if f.Check == c.check && f.Result == c.result && strings.Contains(f.Text, c.says) {
					return
				}
			}
			t.Errorf("no finding %s, %s, %q in %+v", c.check, c.result, c.says, promises(traits))
		})
	}
}
