package fitness

import (
	"github.com/holdfast-go/holdfast/driver"
)

// promises returns what a store's traits mean for its users.
func promises(t driver.Traits) []Finding {
	var fs []Finding
	say := func(check string, result Verdict, text string) {
		fs = append(fs, Finding{Check: check, Result: result, Text: text})
	}
	switch t.Reach {
	case driver.Network:
		say("reach", Note, "excludes all clients of this store, on all machines")
	case driver.Host:
		say("reach", Note, "excludes the processes of this host only; for jobs on several machines, name a store that they share")
	default:
		say("reach", Warn, "excludes only clients in one process")
	}
	if t.ServerClock {
		say("clock", Note, "the store's clock decides alone when a lock ends; no machine's wall clock does")
	} else {
		say("clock", Warn, "each client's clock decides when a lock ends; keep those of all machines in step, and TTLs long against their differences")
	}
	if !t.Notifies {
		say("notifies", Note, "waiters poll, at least once a second")
	}
	if t.Queue {
		say("queue", Note, "status and explain show who waits; --fair and --on-wanted can be used")
	} else {
		say("queue", Note, "waiters keep no order, and status does not show them; --fair and --on-wanted are refused")
	}
	if t.Durable {
		say("durable", Note, "locks and tokens outlive a restart of the store")
	} else {
		say("durable", Warn, "a restart of the store may lose locks, and their resources can be granted again while the holders still work")
	}
	switch t.Failover {
	case driver.FailoverKeeps:
		say("fail-over", Note, "when a copy of the store takes over, it has all locks")
	case driver.FailoverMayLose:
		say("fail-over", Warn, "when a replica takes over, the latest locks may be missing, unless the server waits for replicas; protect data by tokens")
	}
	if t.Shared {
		say("shared", Note, "--shared and --limit can be used")
	} else {
		say("shared", Note, "exclusive locks only; --shared is refused")
	}
	switch t.Fencing {
	case driver.FencingStrict:
		say("fencing", Note, "tokens always rise: the receiver of a write can refuse a late holder by $HOLDFAST_TOKEN")
	case driver.FencingClock:
		say("fencing", Note, "tokens rise by the store's clock: two locks within one tick of it may have the same, and a clock that is set back repeats some")
	default:
		say("fencing", Warn, "there are no tokens: the receiver of a write cannot refuse a late holder")
	}
	return fs
}
