package server

import (
	"net/http"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/budget"
)

// Event is what an audit keeps of a request. Hold IDs and lock IDs are not part of it.
type Event struct {
	// Request is the one that was answered, for its address.
	Request *http.Request
	// Caller is the name of who sent it, or empty.
	Caller string
	// Action is acquire, renew, release, force-release, sweep, look, or login if it is not
	// known who sent the request.
	Action string
	// Outcome is granted, released, not-found if there was no such hold to release, swept,
	// denied, allowed for what is about to be done, or unknown if the store did not answer: it
	// may be done, now or later. An acquire that is refused because the resource is held is no
	// event: waiters repeat it all the time. Nor is a renewal, unless it is denied.
	Outcome  string
	Resource string // empty for a sweep
	Ref      string // wire.RefOf the hold ID, if there is one
	Token    uint64
	Reason   string // of a forced release, or why it was denied
	// Count is how many items of the request were denied, or named no hold to release, the
	// rest is of the first of them. Omitted is how many such the caller had before that are in
	// no event, because there were too many.
	Count, Omitted int
}

// audit tells Options.Audit. Its error matters only before an event.
func (x *exchange) audit(e Event) error {
	if x.s.opts.Audit == nil {
		return nil
	}
	e.Request = x.r
	if x.caller != nil {
		e.Caller = x.caller.Name()
	}
	return x.s.opts.Audit(e)
}

// deny refuses what the caller has no right to. The error is ErrDenied.
func (x *exchange) deny(action, resource string, id driver.HoldID, err error) {
	x.auditDenied(action, resource, id, err)
	x.refuse(wire.KindDenied, x.whyDenied(err))
}

// auditDenied tells what the caller was denied. The error is ErrDenied, and says why.
func (x *exchange) auditDenied(action, resource string, id driver.HoldID, err error) {
	x.auditRefused(Event{Action: action, Outcome: "denied", Resource: resource, Ref: wire.RefOf(id), Reason: detailDenied(err), Count: 1})
}

// auditRefused tells of what came to nothing.
func (x *exchange) auditRefused(e Event) {
	if e.Count > 0 && e.Charge(x.account) {
		_ = x.audit(e)
	}
}

// eventBytes is how many bytes an event takes in a file, besides its texts.
const eventBytes = 256

// Charge charges a caller for an event of something that came to nothing, and reports whether
// it is to be told: nobody fills a disk with such events. A byte takes six at most in JSON.
func (e *Event) Charge(to budget.Account) (ok bool) {
	e.Omitted, ok = to.Deny(eventBytes+6*(len(e.Resource)+len(e.Reason)), e.Count)
	return ok
}
