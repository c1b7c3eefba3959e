package dashboard

import "github.com/holdfast-go/holdfast/driver"

// traitsOf says what the store promises, and what not.
func traitsOf(t driver.Traits) []traitView {
	say := func(name string, has bool, yes, no string) traitView {
		if has {
			return traitView{name, true, yes}
		}
		return traitView{name, false, no}
	}
	return []traitView{
		{"kind", true, t.Name},
		{"shared by", true, string(t.Reach)},
		say("clock", t.ServerClock, "the store's own clock decides", "the clients' clocks decide: they must agree"),
		say("durable", t.Durable, "holds and tokens survive a crash", "a crash may lose holds and tokens"),
		say("wake-ups", t.Notifies, "a release wakes who waits", "who waits asks again and again"),
		say("queue", t.Queue, "it notes who waits", "it does not know who waits"),
		say("shared holds", t.Shared, "yes, and limits", "no"),
		{"fencing tokens", t.Fencing != "", string(t.Fencing)},
		{"fail-over", t.Failover != driver.Failover(""), string(t.Failover)},
	}
}
