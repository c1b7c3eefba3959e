package job

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestKillAfter(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Hour:              5 * time.Second,
		30 * time.Second:       5 * time.Second,
		12 * time.Second:       2 * time.Second,
		600 * time.Millisecond: 100 * time.Millisecond,
		holdfast.MinTTL:        holdfast.MinTTL / 6,
	} {
		var p Policy
		if err := p.Check(ttl); err != nil || p.killAfter != want {
			t.Errorf("TTL %v: kill after %v, %v, want %v", ttl, p.killAfter, err, want)
		}
	}
}

// Of all times, also those whose sum with the margin is no time any more.
func TestKillAfterIsTooLong(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Second, time.Hour, 876_000 * time.Hour, 1<<63 - 1} {
		p := Policy{killAfter: after}
		if err := p.Check(30 * time.Second); err == nil {
			t.Errorf("--kill-after %v is accepted", after)
		}
	}
}
