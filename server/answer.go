package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

var errReserved = fmt.Errorf("%w: the resource %q is the server's own", driver.ErrInvalid, reserved)

// answer writes v as the body of a success.
func (x *exchange) answer(v any) {
	body, err := json.Marshal(v)
	if err != nil { // no type of package wire does that
		x.s.opts.Logger.Error("holdfast server: cannot write an answer", "error", err)
		x.refuse(wire.KindUnknown, "the server cannot write the answer")
		return
	}
	x.send(http.StatusOK, wire.JSON, body)
}

func (x *exchange) refuse(kind wire.Kind, why string) { x.sendRefusal(wire.NewRefusal(kind, why)) }

// busy refuses what is beyond a limit.
func (x *exchange) busy(why string) {
	r := wire.NewRefusal(wire.KindBusy, why)
	second := wire.Millis(1000)
	r.RetryAfterMs = &second
	x.sendRefusal(r)
}

// draining refuses what another server is to do, at once.
func (x *exchange) draining(kind wire.Kind) {
	r := wire.NewRefusal(kind, "the server ends: repeat the request with the same hold ID")
	now := wire.Millis(0)
	r.RetryAfterMs = &now
	x.sendRefusal(r)
}

func (x *exchange) sendRefusal(r wire.Refusal) {
	x.kind = r.Kind()
	if ms := r.RetryAfterMs; ms != nil && *ms >= 0 && r.Status != http.StatusConflict {
		x.w.Header().Set("Retry-After", strconv.FormatInt(int64((*ms+999)/1000), 10))
	}
	body, err := json.Marshal(r)
	if err != nil {
		body = []byte(`{}`) // not of our schema, so unknown
	}
	x.send(r.Status, wire.ProblemJSON, body)
}

// send writes an answer. A reader that does not take it within writePatience is cut off. Who
// is refused before its body was read may send that first.
func (x *exchange) send(status int, mediaType string, body []byte) {
	x.status = status
	h := x.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = x.control.SetWriteDeadline(time.Now().Add(x.unread + writePatience))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // there is nobody to tell
}

// refuseError refuses because of an error of the store, or of a Validate method.
func (x *exchange) refuseError(op string, err error) {
	kind := wire.KindOf(err)
	if kind == wire.KindHeld { // only an acquire is, and describes it
		kind = wire.KindUnknown
	}
	x.logError(op, err)
	x.refuse(kind, detail(err))
}

// logError logs what an operator has to know of an error of the store.
func (x *exchange) logError(op string, err error) {
	switch {
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrLost):
		return
	case !definite(err) && op != "release" && x.r.Context().Err() != nil:
		return // the caller hung up, which ends all calls but releases
	}
	x.s.opts.Logger.Warn("holdfast server: the store failed", "op", op, "error", err)
}

// detail is what a caller is told of an error. What a store says of others' records and of
// itself is for the log alone: it may name their lock IDs.
func detail(err error) string {
	switch {
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported):
		return strings.TrimPrefix(err.Error(), driver.ErrInvalid.Error()+": ")
	case errors.Is(err, driver.ErrLost):
		return "the hold has ended: it is past its end, released or not there"
	case errors.Is(err, driver.ErrDamaged):
		return "a record in the store cannot be understood: see the server's log"
	case errors.Is(err, driver.ErrUnusable):
		return "the store cannot be used until somebody fixes it: see the server's log"
	case errors.Is(err, errNotSent):
		return errNotSent.Error()
	}
	return "the store did not answer: the request may be applied, now or later"
}

// errNotSent: the caller's time was over, or it was gone.
var errNotSent = errors.New("the caller's time was over before the request could be sent to the store")
