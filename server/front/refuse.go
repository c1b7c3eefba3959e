package front

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// refusal is the reason why a request is not passed on, and what is answered.
type refusal struct {
	kind   wire.Kind
	detail string
	wait   time.Duration // until another attempt may succeed, if it is busy
}

func refused(kind wire.Kind, detail string) *refusal { return &refusal{kind: kind, detail: detail} }

// refuse answers with a problem of package wire.
func (f *Front) refuse(w http.ResponseWriter, r *refusal) {
	problem := wire.NewRefusal(r.kind, r.detail)
	if r.kind == wire.KindBusy {
		ms := wire.MillisUp(r.wait)
		problem.RetryAfterMs = &ms
		w.Header().Set("Retry-After", strconv.FormatInt(int64((ms+999)/1000), 10))
	}
	body, _ := json.Marshal(problem) // never fails
	h := w.Header()
	h.Set("Content-Type", wire.ProblemJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// Before it writes, net/http reads what the handler left of a body. Not all writers have
	// a deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readPatience + writePatience))
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body) // there is nobody to tell
	if f.opts.Answered != nil {
		f.opts.Answered(r.kind)
	}
}

// Isolate sets headers by which browsers neither keep an answer nor show it within a page of
// another origin, nor load anything for it. A page that loads something replaces the
// Content-Security-Policy.
func Isolate(h http.Header) { maps.Copy(h, isolation) }

// isolation is shared by all answers: nothing changes its values.
var isolation = http.Header{
	"Cache-Control":                {"no-store"},
	"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	// Not "no-referrer": browsers then say that a form of the server itself is from nowhere.
	"Referrer-Policy":        {"same-origin"},
	"X-Content-Type-Options": {"nosniff"},
	"X-Frame-Options":        {"DENY"},
}

// setHeaders sets what every answer has.
func (f *Front) setHeaders(h http.Header) {
	Isolate(h)
	if f.opts.Store != nil {
		if id := f.opts.Store(); id != "" {
			h.Set(wire.StoreHeader, id)
		}
	}
}
