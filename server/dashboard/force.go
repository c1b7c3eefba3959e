package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
)

// actPatience is how long the store may take for a release by force.
const actPatience = 10 * time.Second

// force releases one hold, which its ref and its token name: a page that is old names a
// hold that has gone, and never its successor.
func (d *Dashboard) force(v *visit) {
	var body struct {
		Resource string `json:"resource"`
		Ref      string `json:"ref"`
		Token    string `json:"token"`
		Reason   string `json:"reason"`
	}
	if !v.read(&body) {
		return
	}
	token, err := strconv.ParseUint(body.Token, 10, 64)
	reason := strings.TrimSpace(body.Reason)
	switch {
	case err != nil || token == 0 || body.Ref == "" || driver.ValidResource(body.Resource) != nil || server.Reserved(body.Resource):
		v.fail(http.StatusBadRequest, "The page named no hold. Load it again.")
		return
	case reason == "":
		v.fail(http.StatusBadRequest, "Say why.")
		return
	case driver.Details{Comment: reason}.Validate() != nil:
		v.fail(http.StatusBadRequest, "The reason is too long, or is no text.")
		return
	}
	event := server.Event{
		Request: v.r, Caller: v.caller.Name(), Action: "force-release", Resource: body.Resource, Ref: body.Ref, Token: token, Reason: reason,
	}
	if !v.caller.May(access.Force, body.Resource) {
		event.Outcome, event.Count = "denied", 1
		if event.Charge(v.account()) {
			_ = d.audit(event)
		}
		v.fail(http.StatusForbidden, "You have no right to release this by force.")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), actPatience)
	defer cancel()
	ref, err := d.find(ctx, body.Resource, body.Ref, token)
	switch {
	case err != nil:
		d.opts.Logger.Warn("a release by force failed", "resource", body.Resource, "ref", body.Ref, "error", err)
		v.fail(http.StatusServiceUnavailable, "The store did not answer. Nothing was done.")
		return
	case ref.HoldID.IsZero():
		v.answer(http.StatusOK, answer{Done: "That hold has ended by itself meanwhile. Nothing was done."})
		return
	}
	event.Outcome = "allowed"
	if err := d.audit(event); err != nil {
		d.opts.Logger.Error("cannot write the audit", "error", err)
		v.fail(http.StatusInternalServerError, "The server cannot write its audit, and does nothing by force without it.")
		return
	}
	sent := time.Now()
	rs, err := d.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref, Reason: reason}})
	if err == nil && len(rs) != 1 {
		err = errors.New("the store has not said what became of the release")
	}
	if err == nil {
		err = rs[0].Err
	}
	switch {
	case err != nil:
		event.Outcome = "unknown"
		_ = d.audit(event)
		d.opts.Logger.Warn("a release by force failed", "resource", body.Resource, "ref", body.Ref, "error", err)
		v.fail(http.StatusServiceUnavailable, "The store did not answer: the hold may be released, now or in a moment. Look again.")
	case !rs[0].Found:
		event.Outcome = "not-found"
		_ = d.audit(event)
		v.answer(http.StatusOK, answer{Done: "That hold has ended by itself meanwhile. Nothing was done."})
	default:
		if d.opts.History != nil {
			d.opts.History.Forced(ref, sent, v.caller.Name(), reason)
		}
		event.Outcome = "released"
		_ = d.audit(event)
		v.answer(http.StatusOK, answer{Done: "Released. Its holder may go on until its next renewal tells it."})
	}
}

// find returns the hold with the ref and the token, or none.
func (d *Dashboard) find(ctx context.Context, resource, ref string, token uint64) (driver.HoldRef, error) {
	for h, err := range d.store.List(ctx, driver.Filter{Resource: resource}) {
		if err != nil {
			return driver.HoldRef{}, err
		}
		if h.Token == token && wire.RefOf(h.HoldID) == ref {
			return h.Ref(), nil
		}
	}
	return driver.HoldRef{}, nil
}

func (d *Dashboard) audit(e server.Event) error {
	if d.opts.Audit == nil {
		return nil
	}
	return d.opts.Audit(e)
}
