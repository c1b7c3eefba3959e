package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server"
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), actPatience)
	defer cancel()
	f := server.Forcer{Store: d.store, Audit: d.opts.Audit, History: d.opts.History}
	r, err := f.Release(ctx, v.r, v.caller, v.account(), server.Force{Resource: body.Resource, Ref: body.Ref, Token: token, Reason: reason})
	if err != nil && !errors.Is(err, server.ErrDenied) {
		d.opts.Logger.Warn("a release by force failed", "resource", body.Resource, "ref", body.Ref, "error", err)
	}
	switch {
	case errors.Is(err, server.ErrDenied):
		v.fail(http.StatusForbidden, "You have no right to release this by force.")
	case errors.Is(err, server.ErrNoAudit):
		v.fail(http.StatusInternalServerError, "The server cannot write its audit, and does nothing by force without it.")
	case errors.Is(err, server.ErrForceUnknown):
		v.fail(http.StatusServiceUnavailable, "The store did not answer: the hold may be released, now or in a moment. Look again.")
	case err != nil:
		v.fail(http.StatusServiceUnavailable, "The store did not answer. Nothing was done.")
	case !r.Found:
		v.answer(http.StatusOK, answer{Done: "That hold has ended by itself meanwhile. Nothing was done."})
	default:
		v.answer(http.StatusOK, answer{Done: "Released. Its holder may go on until its next renewal tells it."})
	}
}
