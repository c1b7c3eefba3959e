package proxy

import "time"

// Fault says what becomes of what clients and servers send. The zero Fault lets
// everything pass.
type Fault struct {
	// Requests is what becomes of bytes on their way to a server, Replies of those
	// to a client. A message may come as several pieces; each has its own fate.
	Requests, Replies Effect
	// Percent of the pieces meet it; the others pass. 0: all do.
	Percent int
	// Delay is how long every piece that passes is under way, in both directions.
	Delay time.Duration
}

// Effect is what happens to a piece of what was sent.
type Effect int

const (
	// Pass is no effect.
	Pass Effect = iota
	// Vanish loses it and tells nobody: the connection is half-open. It is cut when
	// the fault is over, for what follows would make no sense to the other side.
	Vanish
	// Cut loses it and ends the connection at once. A reply that is cut is that of a
	// server which has done what it was asked.
	Cut
)

// Faults of connections, each with what it does.
var (
	CutRequests    = Fault{Requests: Cut}
	CutReplies     = Fault{Replies: Cut}
	VanishRequests = Fault{Requests: Vanish}
	VanishReplies  = Fault{Replies: Vanish}
	Silence        = Fault{Requests: Vanish, Replies: Vanish}
)

// Slow delays everything.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// Rarely cuts connections at that percentage of requests and replies.
func Rarely(percent int) Fault { return Fault{Requests: Cut, Replies: Cut, Percent: percent} }
