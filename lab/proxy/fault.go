package proxy

import "time"

// Fault says what happens to the data of clients and servers. The zero Fault lets everything
// pass.
type Fault struct {
	// Requests is the effect on data sent to a server, Replies on data sent to a client. A
	// message may consist of several pieces, and the effect is chosen for each of them.
	Requests, Replies Effect
	// Percent is the share of pieces with an effect; the others pass. 0: all pieces.
	Percent int
	// Delay is the time that every piece that passes is in flight, in both directions.
	Delay time.Duration
}

// Effect is what happens to a piece of data.
type Effect int

const (
	// Pass is no effect.
	Pass Effect = iota
	// Vanish loses the piece silently: the connection is half-open. It is cut when the fault
	// ends, because the other side could not read the pieces that follow.
	Vanish
	// Cut loses the piece and ends the connection at once. If the reply is cut, the server has
	// handled the request.
	Cut
)

// Common faults of connections.
var (
	CutRequests    = Fault{Requests: Cut}
	CutReplies     = Fault{Replies: Cut}
	VanishRequests = Fault{Requests: Vanish}
	VanishReplies  = Fault{Replies: Vanish}
	Silence        = Fault{Requests: Vanish, Replies: Vanish}
)

// Slow delays all data.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// Rarely cuts connections at percent of the requests and replies.
func Rarely(percent int) Fault { return Fault{Requests: Cut, Replies: Cut, Percent: percent} }
