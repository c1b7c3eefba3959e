package statuscmd

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// now is the store's clock, which is not that of this machine.
var now = time.Date(2026, 11, 21, 15, 0, 0, 0, time.Local)

func hold(resource, owner string, change func(*holdfast.Status)) holdfast.Status {
	s := holdfast.Status{Resource: resource, LockID: "lock of " + owner, Left: 20 * time.Second, Created: now.Add(-time.Minute), Seen: now}
	s.Owner, s.Host = owner, "web1"
	if change != nil {
		change(&s)
	}
	return s
}

func shared(limit int) func(*holdfast.Status) {
	return func(s *holdfast.Status) { s.Mode, s.Limit = holdfast.Shared, limit }
}

// waiter is a waiter that came 5 s ago. mode is a limit, or -1 for an exclusive one.
func waiter(owner string, fair bool, limit int) holdfast.Place {
	p := holdfast.Place{
		Resource: "r", LockID: "lock of " + owner, Owner: owner, Fair: fair,
		Since: now.Add(-5 * time.Second), Asked: now.Add(-5 * time.Second), Seen: now, Left: 5 * time.Second,
	}
	if limit >= 0 {
		p.Mode, p.Limit = holdfast.Shared, limit
	}
	return p
}

// queue is the queue of r.
func queue(places ...holdfast.Place) []output.Waiting {
	return output.QueuesOf(places)["r"]
}

// silent makes the waiter one that has not asked for so long.
func silent(d time.Duration, p holdfast.Place) holdfast.Place {
	p.Asked, p.Left = now.Add(-d), driver.FairPlaceTTL-d
	if !p.Fair {
		p.Left = driver.PlainPlaceTTL - d
	}
	p.Since = p.Asked
	return p
}

func TestSentences(t *testing.T) {
	const asked = "since 14:59:55, for 5s"
	for name, c := range map[string]struct {
		scene scene
		want  string
	}{
		"free": {scene{}, `
"r" is free.
Nobody waits for it.`},
		"free, without a queue": {scene{noQueue: true}, `
"r" is free.
The store keeps no queue: it does not know who waits.`},
		"free, with waiters": {scene{waiters: queue(waiter("bob", true, -1), waiter("cy", false, -1))}, `
"r" is free.
2 wait for it:
  1. bob, exclusively, ` + asked + `, in turn: nothing is in its way, its next try succeeds.
  -  cy, exclusively, ` + asked + `, in any order: 1 is served before.`},
		"free, and those that wait are gone": {scene{waiters: queue(
			silent(6*time.Second, waiter("bob", true, -1)), silent(55*time.Second, waiter("cy", false, -1)), silent(35*time.Second, waiter("dan", false, -1)))}, `
"r" is free.
3 wait for it:
  1. bob, exclusively, since 14:59:54, for 6s, in turn: nothing is in its way; it has not asked for 6s, and its place ends in 4s.
  -  cy, exclusively, since 14:59:05, for 55s, in any order: 1 is served before; it has not asked for 55s, and its place ends in 5s.
  -  dan, exclusively, since 14:59:25, for 35s, in any order: 1 is served before.`},
		"held": {scene{
			holds: []holdfast.Status{hold("r", "ada", func(s *holdfast.Status) { s.Comment, s.Renewed = "nightly", now.Add(-10*time.Second) })},
		}, `
"r" is held by ada on web1, exclusively, since 14:59:00, for 1m0s (nightly).
It ends in 20s unless its holder renews it, and was last renewed at 14:59:50, 10s ago.
Nobody waits for it, or not for a second yet.`},
		"a semaphore": {scene{
			holds:   []holdfast.Status{hold("r", "ada", shared(2)), hold("r", "bob", shared(2))},
			waiters: queue(waiter("cy", true, 2), waiter("dan", true, 3), waiter("eve", true, -1), waiter("fay", false, 2)),
		}, `
"r" is held by ada on web1, as one of 2, since 14:59:00, for 1m0s.
It ends in 20s unless its holder renews it, and was never renewed.
"r" is held by bob on web1, as one of 2, since 14:59:00, for 1m0s.
It ends in 20s unless its holder renews it, and was never renewed.
4 wait for it:
  1. cy, as one of 2, ` + asked + `, in turn: the 2 holders are in its way.
  2. dan, as one of 3, ` + asked + `, in turn: the lock is held with another limit, and 1 is served before.
  3. eve, exclusively, ` + asked + `, in turn: the 2 holders are in its way, and 2 are served before.
  -  fay, as one of 2, ` + asked + `, in any order: the 2 holders are in its way, and 3 are served before.`},
		"shared behind a writer": {scene{
			holds:   []holdfast.Status{hold("r", "ada", shared(0))},
			waiters: queue(waiter("bob", true, -1), waiter("cy", true, 0)),
		}, `
"r" is held by ada on web1, shared, since 14:59:00, for 1m0s.
It ends in 20s unless its holder renews it, and was never renewed.
2 wait for it:
  1. bob, exclusively, ` + asked + `, in turn: the holder is in its way.
  2. cy, shared, ` + asked + `, in turn: 1 is served before.`},
		"the last permit is spoken for": {scene{
			holds:   []holdfast.Status{hold("r", "ada", shared(2))},
			waiters: queue(waiter("bob", true, 2), waiter("cy", true, 2)),
		}, `
"r" is held by ada on web1, as one of 2, since 14:59:00, for 1m0s.
It ends in 20s unless its holder renews it, and was never renewed.
2 wait for it:
  1. bob, as one of 2, ` + asked + `, in turn: nothing is in its way, its next try succeeds.
  2. cy, as one of 2, ` + asked + `, in turn: 1 is served before.`},
		"a server shows no more to who may only lock": {scene{
			holds: []holdfast.Status{{Resource: "r", Left: 20 * time.Second}},
		}, `
"r" is held by another client, exclusively.
It ends in 20s unless its holder renews it, and may have been renewed.
Nobody waits for it, or not for a second yet.`},
		"those that wait for a holder that is gone": {scene{
			holds: []holdfast.Status{
				hold("r", "ada", func(s *holdfast.Status) {
					s.Mode, s.Renewed, s.Left = holdfast.Shared, now.Add(-23*time.Second), 7*time.Second
				}),
				hold("r", "bob", func(s *holdfast.Status) { s.Mode, s.Renewed = holdfast.Shared, now.Add(-10*time.Second) }),
				hold("r", "cy", func(s *holdfast.Status) {
					s.Mode, s.Created, s.Left = holdfast.Shared, now.Add(-time.Hour), holdfast.Forever
				}),
			},
			waiters: queue(waiter("dan", true, -1)),
		}, `
"r" is held by ada on web1, shared, since 14:59:00, for 1m0s.
It ends in 7s unless its holder renews it, and was last renewed at 14:59:37, 23s ago.
"r" is held by bob on web1, shared, since 14:59:00, for 1m0s.
It ends in 20s unless its holder renews it, and was last renewed at 14:59:50, 10s ago.
"r" is held by cy on web1, shared, since 14:00:00, for 1h0m0s.
It has no end, and was never renewed.
1 waits for it:
  1. dan, exclusively, ` + asked + `, in turn: the 3 holders are in its way.
Stuck: ada on web1 has missed 2 renewals: it was killed or stopped, cannot reach the store, or does not renew it by itself.
Stuck: cy on web1 holds it without an end, and nobody renews it: only its holder ends that, or a release by force.`},
		"nobody waits for a holder that is gone": {scene{
			holds: []holdfast.Status{hold("r", "ada", func(s *holdfast.Status) { s.Renewed, s.Left = now.Add(-23*time.Second), 7*time.Second })},
		}, `
"r" is held by ada on web1, exclusively, since 14:59:00, for 1m0s.
It ends in 7s unless its holder renews it, and was last renewed at 14:59:37, 23s ago.
Nobody waits for it, or not for a second yet.`},
	} {
		c.scene.resource = "r"
		if got := "\n" + strings.Join(c.scene.sentences(), "\n"); got != c.want {
			t.Errorf("%s: got%s\nwant%s", name, got, c.want)
		}
	}
}

func TestEnds(t *testing.T) {
	for want, change := range map[string]func(*holdfast.Status){
		"has no end, and was never renewed":                      func(s *holdfast.Status) { s.Left = holdfast.Forever },
		"was never renewed; the store does not say when it ends": func(s *holdfast.Status) { s.Left = driver.Unknown },
		"is released, and ends in 20s, after --at-least":         func(s *holdfast.Status) { s.Released = true },
		"has just ended": func(s *holdfast.Status) { s.Left = 0 },
		"has ended without a release, and keeps others out for its takeover delay of 1m0s": func(s *holdfast.Status) {
			s.Left, s.TakeoverDelay = 0, time.Minute
		},
	} {
		var s scene
		if got := s.end(hold("r", "ada", change)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// The times are of the clock of a program without Holdfast.
	s := scene{resource: "r"}
	old := hold("r", "ada", func(s *holdfast.Status) { s.Renewed, s.Seen = now, time.Time{} })
	if got := s.held(old); got != `"r" is held by ada on web1, exclusively, since 2026-11-21 14:59 by another clock.` {
		t.Errorf("got %s", got)
	}
	if got := s.end(old); got != "ends in 20s unless its holder renews it, and was last renewed at 2026-11-21 15:00 by another clock" {
		t.Errorf("got %s", got)
	}
}
