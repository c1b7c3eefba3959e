package server

import "net/http"

// Event is what an audit keeps of a request. Hold IDs and lock IDs are not part of it.
type Event struct {
	// Request is the one that was answered, for its address.
	Request *http.Request
	// Caller is the name of who sent it, or empty.
	Caller string
	// Action is acquire, release, force-release, sweep or look.
	Action string
	// Outcome is granted, released, swept, denied, or allowed for what is about to be done.
	Outcome  string
	Resource string // empty for a sweep
	Ref      string // wire.RefOf the hold ID, if there is one
	Token    uint64
	Reason   string // of a forced release
}

// audit tells Options.Audit. Its error matters only before an event.
func (x *exchange) audit(e Event) error {
	if x.s.opts.Audit == nil {
		return nil
	}
	e.Request, e.Caller = x.r, x.caller.Name()
	return x.s.opts.Audit(e)
}
