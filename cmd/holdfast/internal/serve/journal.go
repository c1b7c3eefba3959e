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

// keep returns what writes the events of the server. What is told before it is done, as a
// forced release, is on the disk before keep returns. Without a file, that is said on stderr.
func keep(log *audit.Log) func(server.Event) error {
	return func(e server.Event) error {
		if log == nil {
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
			return log.Record(e.Request.Context(), entry)
		}
		log.Note(entry)
		return nil
	}
}

// by names who did something.
func by(e server.Event) string {
	if e.Caller != "" {
		return e.Caller
	}
	return front.AddressOf(e.Request)
}

// keepRefused returns what notes the requests whose caller is not known.
func keepRefused(log *audit.Log) func(*http.Request, error) {
	if log == nil {
		return nil
	}
	return func(r *http.Request, why error) {
		log.Note(audit.Event{Address: front.AddressOf(r), Action: "login", Outcome: "denied", Reason: why.Error()})
	}
}
