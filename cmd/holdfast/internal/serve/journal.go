package serve

import (
	"net/http"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/front"
)

// allowed is the outcome of an event that is told before it is done.
const allowed = "allowed"

// keep writes an event of the server. What is told before it is done, as a forced release, is on
// the disk before keep returns. Without a file, that is said on stderr.
func (r *running) keep(e server.Event) error {
	if r.audit == nil {
		switch {
		case e.Outcome != allowed:
		case e.Resource == "":
			output.Say("%s by %s", e.Action, by(e))
		default:
			output.Say("%s of %q (ref %s) by %s: %s", e.Action, e.Resource, e.Ref, by(e), e.Reason)
		}
		return nil
	}
	entry := audit.Event{
		Caller: e.Caller, Address: front.AddressOf(e.Request), Action: e.Action, Outcome: e.Outcome,
		Resource: e.Resource, Ref: e.Ref, Token: e.Token, Reason: e.Reason,
		Omitted: e.Omitted,
	}
	if e.Count > 1 {
		entry.Items = e.Count
	}
	if e.Outcome == allowed {
		return r.audit.Record(e.Request.Context(), entry)
	}
	r.audit.Note(entry)
	return nil
}

// by names who did something.
func by(e server.Event) string {
	if e.Caller != "" {
		return e.Caller
	}
	return front.AddressOf(e.Request)
}

// refused notes a request whose caller is not known.
func (r *running) refused(q *http.Request, why error) {
	r.noteLogin(q, audit.Event{Outcome: "denied", Reason: why.Error()})
}

// loginBytes is about how many bytes an entry about a login takes in the audit.
const loginBytes = 256

// noteLogin notes who has signed in, or could not. All who could not have one share of the audit
// together: whoever has many addresses would have as many shares, and could fill the disk.
func (r *running) noteLogin(q *http.Request, e audit.Event) {
	if r.audit == nil {
		return
	}
	if e.Outcome == "denied" {
		omitted, ok := r.budget.Of("logins", false).Deny(loginBytes, 1)
		if !ok {
			return
		}
		e.Omitted = omitted
	}
	e.Action, e.Address = "login", front.AddressOf(q)
	r.audit.Note(e)
}
